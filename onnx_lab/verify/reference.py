"""The captured graph run by PyTorch, call by call: the reference for every intermediate value."""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from onnx_lab.errors import VerificationError
from onnx_lab.program.graph import Call, CapturedGraph, Ref, Region
from onnx_lab.program.op_key import OpKey
from onnx_lab.program.spec import DType

_OPERATORS = {"and": operator.and_, "or": operator.or_, "not": operator.not_, "xor": operator.xor}


def run_calls(graph: CapturedGraph, inputs: Mapping[str, Any]) -> Iterator[tuple[Call, Any]]:
    """Every top-level call with its value, in order. A value is dropped after its last use.

    Args:
        inputs: tensors by input name.
    """
    interpreter = _Interpreter({name: weight.tensor for name, weight in graph.weights.items()} | dict(inputs))
    left = Counter(ref.name for call in graph.calls for ref in call.refs())
    with torch.no_grad():
        for call in graph.calls:
            value = interpreter.run(call)
            yield call, value
            for ref in call.refs():
                left[ref.name] -= 1
                if not left[ref.name]:
                    interpreter.values.pop(ref.name, None)


class _Interpreter:
    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values

    def run(self, call: Call) -> Any:
        if call.key == "_operator::getitem":
            value = self.argument(call.args[0])[call.args[1]]
        elif call.regions:
            value = self._control_flow(call)
        else:
            value = function_of(call.key)(*self.argument(call.args), **self.argument(call.kwargs))
        self.values[call.name] = value
        return value

    def argument(self, value: Any) -> Any:
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

    def region(self, region: Region, arguments: list[Any]) -> list[Any]:
        inner = _Interpreter(dict(self.values))
        inner.values.update(zip((name for name, _ in region.params), arguments, strict=True))
        for call in region.calls:
            inner.run(call)
        return [inner.argument(output) for output in region.outputs]

    def _control_flow(self, call: Call) -> Any:
        run = {"cond": self._cond, "while_loop": self._while, "scan": self._scan, "map_impl": self._map}
        kind = OpKey(call.key).name
        if kind not in run:
            raise VerificationError(f"{call.key} has no reference implementation", op=call.key, source=call.source)
        return run[kind](call, *self.argument(call.args))

    def _cond(self, call: Call, pred: Any, operands: Any) -> Any:
        return self.region(call.regions[0 if bool(pred) else 1], list(operands))

    def _while(self, call: Call, carried: Any, additional: Any = ()) -> Any:
        state, extra = list(carried), list(additional)
        while bool(self.region(call.regions[0], [*state, *extra])[0]):
            state = self.region(call.regions[1], [*state, *extra])
        return state

    def _scan(self, call: Call, init: Any, xs: Any, additional: Any = ()) -> Any:
        state, rows = list(init), []
        for step in zip(*xs, strict=True):
            made = self.region(call.regions[0], [*state, *step, *additional])
            state = made[: len(state)]
            rows.append(made[len(state) :])
        return [*state, *(torch.stack(list(column)) for column in zip(*rows, strict=True))]

    def _map(self, call: Call, xs: Any, additional: Any = ()) -> Any:
        return self._scan(call, (), xs, additional)


def function_of(key: str) -> Callable[..., Any]:
    """The Python function behind a key.

    Raises:
        VerificationError: there is none.
    """
    parts = OpKey(key)
    try:
        if parts.namespace == "_operator":
            return _OPERATORS.get(parts.name) or getattr(operator, parts.name)  # type: ignore[no-any-return]
        if parts.namespace in ("math", "torch"):
            return getattr({"math": math, "torch": torch}[parts.namespace], parts.name)  # type: ignore[no-any-return]
        return getattr(getattr(getattr(torch.ops, parts.namespace), parts.name), parts.overload or "default")  # type: ignore[no-any-return]
    except AttributeError as error:
        raise VerificationError(f"{key} cannot be run by PyTorch", op=key) from error


