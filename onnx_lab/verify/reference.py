"""The captured graph run by PyTorch, call by call: the reference for every intermediate value."""

from __future__ import annotations

import builtins
import math
import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import torch

from onnx_lab.errors import OnnxLabError, VerificationError
from onnx_lab.program.graph import Call, CapturedGraph, Ref
from onnx_lab.program.op_key import OpKey
from onnx_lab.program.spec import DType, ScalarSpec, Spec

# Lists of scripted programs, by key; each gives a new list.
_LISTS: dict[str, Callable[..., Any]] = {
    "list::pack": lambda items, dtype: list(items),
    "list::append": lambda items, item: [*items, item],
    "list::insert": lambda items, index, item: [*items[:index], item, *items[index:]],
    "list::set": lambda items, index, item: [item if at == index % len(items) else one for at, one in enumerate(items)],
    "list::pop": lambda items, index: [one for at, one in enumerate(items) if at != index % len(items)],
    "list::get": lambda items, index: items[index],
    "list::len": len,
    "list::stack": torch.stack,
    "list::cat": torch.cat,
}
_PYTHON = {"_operator": operator, "math": math, "builtins": builtins, "torch": torch}
# Their schemas hide that they write the running statistics (arguments 3 and 4).
_WRITE_STATISTICS = {"aten::batch_norm", "aten::instance_norm", "aten::native_batch_norm"}


class Watch(Protocol):
    """Told of what happens inside branches and loops."""

    def enter(self, call: Call, region: int, turn: int) -> None: ...

    def value(self, call: Call, value: Any) -> None: ...

    def leave(self) -> None: ...


def run_calls(
    graph: CapturedGraph, inputs: Mapping[str, Any], watch: Watch | None = None
) -> Iterator[tuple[Call, Any]]:
    """Every top-level call with its value, in order. A value is dropped after its last use.

    Args:
        inputs: tensors (or numbers) by input name.
        watch: is told of every region that is run, and of every value in it.

    Raises:
        VerificationError: an input is missing, or PyTorch cannot run a call; it names the user's line.
    """
    missing = [given.name for given in graph.inputs if given.name not in inputs]
    if missing:
        raise VerificationError(f"no value for input {missing[0]}", seen=f"values for {', '.join(inputs) or 'none'}")
    given = {one.name: _as_declared(inputs[one.name], one.spec) for one in graph.inputs}
    interpreter = _Interpreter({name: weight.tensor for name, weight in graph.weights.items()} | given, watch)
    left = Counter(ref.name for call in graph.calls for ref in call.refs())
    for call in graph.calls:
        # Not around the yield: the caller's code runs there.
        with torch.no_grad():
            value = interpreter.run(call)
        yield call, value
        del value
        for name in [call.name, *(ref.name for ref in call.refs())]:
            left[name] -= name != call.name
            if left[name] <= 0:
                interpreter.values.pop(name, None)


def _as_declared(value: Any, spec: Spec) -> Any:
    """An input that the program knows as a number comes as a tensor of one element."""
    return value.item() if isinstance(spec, ScalarSpec) and isinstance(value, torch.Tensor) else value


class _Interpreter:
    def __init__(self, values: dict[str, Any], watch: Watch | None = None) -> None:
        self.values = values
        self.watch = watch

    def run(self, call: Call) -> Any:
        try:
            value = self._value_of(call)
        except OnnxLabError:
            raise
        except Exception as error:  # an operator may raise anything
            raise VerificationError(
                f"PyTorch cannot run the captured call {call.name} ({call.key})",
                op=call.key,
                source=call.source,
                seen=f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}",
                hint="give inputs of sizes that the model was exported for",
            ) from error
        self.values[call.name] = value
        return value

    def _value_of(self, call: Call) -> Any:
        args, kwargs = self.argument(call.args), self.argument(call.kwargs)
        if call.regions:
            return self._control_flow(call, args)
        if call.key in _WRITE_STATISTICS:
            args = tuple(_copied(arg) if index in (3, 4) else arg for index, arg in enumerate(args))
            kwargs = {name: _copied(arg) if name.startswith("running_") else arg for name, arg in kwargs.items()}
        return function_of(call.key)(*args, **kwargs)

    def argument(self, value: Any) -> Any:
        """A captured argument as PyTorch takes it."""
        if isinstance(value, Ref):
            return self.values[value.name]
        if isinstance(value, (list, tuple)):
            return type(value)(self.argument(item) for item in value)
        if isinstance(value, dict):
            return {key: self.argument(item) for key, item in value.items()}
        if isinstance(value, DType):
            return getattr(torch, value.name)
        if isinstance(value, str) and value.startswith("torch."):
            return getattr(torch, value.removeprefix("torch."))
        return value

    def region(self, call: Call, index: int, arguments: list[Any], turn: int = 0) -> list[Any]:
        region = call.regions[index]
        inner = _Interpreter(dict(self.values), self.watch)
        inner.values.update(zip((name for name, _ in region.params), arguments, strict=True))
        if self.watch is not None:
            self.watch.enter(call, index, turn)
        for one in region.calls:
            value = inner.run(one)
            if self.watch is not None:
                self.watch.value(one, value)
        if self.watch is not None:
            self.watch.leave()
        return [inner.argument(output) for output in region.outputs]

    def _control_flow(self, call: Call, args: Any) -> Any:
        run: dict[str, Callable[..., Any]] = {
            "cond": self._cond, "while_loop": self._while, "scan": self._scan, "map_impl": self._map,
            "loop": self._loop,
        }  # fmt: skip
        kind = OpKey(call.key).name
        if kind not in run:
            raise VerificationError(f"{call.key} has no reference implementation", op=call.key, source=call.source)
        return run[kind](call, *args)

    def _cond(self, call: Call, pred: Any, operands: Any) -> Any:
        return self.region(call, 0 if bool(pred) else 1, list(operands))

    def _while(self, call: Call, carried: Any, additional: Any = ()) -> Any:
        state, extra, turn = list(carried), list(additional), 0
        while bool(self.region(call, 0, [*state, *extra], turn)[0]):
            state = self.region(call, 1, [*state, *extra], turn)
            turn += 1
        return state

    def _loop(self, call: Call, trips: Any, going: Any, init: Any) -> Any:
        """The body takes the number of the turn and the states, and tells first whether to go on."""
        turn, state = 0, list(init)
        while bool(going) and (trips is None or turn < int(trips)):
            going, *state = self.region(call, 0, [turn, *state], turn)
            turn += 1
        return state

    def _scan(self, call: Call, init: Any, xs: Any, additional: Any = ()) -> Any:
        state, rows = list(init), []
        for turn, step in enumerate(zip(*xs, strict=True)):
            made = self.region(call, 0, [*state, *step, *additional], turn)
            state = made[: len(state)]
            rows.append(made[len(state) :])
        return [*state, *(torch.stack(list(column)) for column in zip(*rows, strict=True))]

    def _map(self, call: Call, xs: Any, additional: Any = ()) -> Any:
        return self._scan(call, (), xs, additional)


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def function_of(key: str) -> Callable[..., Any]:
    """The Python function behind a key.

    Raises:
        VerificationError: there is none.
    """
    if key in _LISTS:
        return _LISTS[key]
    parts = OpKey(key)
    module = _PYTHON.get(parts.namespace)
    if module is not None:
        # Keys drop the underscores around a name: operator.and_, torch._sym_sqrt.
        for name in (parts.name, f"{parts.name}_", f"_{parts.name}"):
            if hasattr(module, name):
                return getattr(module, name)
    else:
        packet = getattr(getattr(torch.ops, parts.namespace), parts.name, None)
        found = getattr(packet, parts.overload or "default", None)
        if found is not None:
            return found
    raise VerificationError(f"{key} cannot be run by PyTorch", op=key)
