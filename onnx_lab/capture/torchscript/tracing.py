"""Tracing one call of a module: the graph that torch's tracer records, and what belongs to it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.jit import _trace as torch_trace
from torch.utils import _pytree as pytree

from onnx_lab.capture.captured import copied
from onnx_lab.capture.failure import reason, user_frame
from onnx_lab.capture.kept import Written, attributes_kept, state_kept
from onnx_lab.capture.torchscript.graphs import class_name
from onnx_lab.capture.torchscript.script import Program
from onnx_lab.capture.torchscript.tape import Tape
from onnx_lab.capture.torchscript.values import TensorValue, Value
from onnx_lab.capture.trees import register_containers
from onnx_lab.errors import CaptureError

# The wrapped model's own name inside a traced module.
INNER = "model"


@dataclass(slots=True)
class Trace:
    """One trace.

    Attributes:
        program: what was recorded.
        arguments: the program's arguments, of the input tensors.
        root: path of the user's model inside the program.
        graph: the same with everything inlined, to compare.
        result: leaves and structure of what the model returned.
        caught: the tracer's warnings.
        written: attributes that forward wrote.
    """

    program: Program
    arguments: Callable[[Tape, list[TensorValue]], list[Value]]
    root: str
    graph: Any
    result: tuple[list[Any], pytree.TreeSpec]
    caught: list[Any]
    written: list[str]


class _OnTensors:
    """A model as a function of its input tensors alone, with its result taken apart into tensors.

    The tracer takes nothing else; numbers, strings and None are the model's constants.
    """

    def __init__(self, model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self.model = model
        self._leaves, self._tree = pytree.tree_flatten((tuple(args), dict(kwargs)))
        self.result: tuple[list[Any], pytree.TreeSpec] = ([], pytree.tree_structure(None))

    def __call__(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        given = iter(tensors)
        leaves = [next(given) if isinstance(leaf, torch.Tensor) else leaf for leaf in self._leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self._tree)
        result = self.model(*args, **kwargs)
        register_containers(result)
        self.result = pytree.tree_flatten(result)
        return tuple(leaf for leaf in self.result[0] if isinstance(leaf, torch.Tensor))


class _Holder(torch.nn.Module):
    """A module around the function above, for models that hold scripted modules."""

    def __init__(self, function: _OnTensors) -> None:
        super().__init__()
        self.model = function.model
        self._function = function
        # Set by itself: train() would set the flags of the model's submodules too.
        self.training = function.model.training

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self._function(*tensors)


def trace(model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Trace:
    """Trace one call; the model, its state and the user's random numbers are left as they were.

    Raises:
        CaptureError: the model or the tracer fails; it names the user's line.
    """
    args, kwargs = copied((tuple(args), dict(kwargs)))
    function = _OnTensors(model, args, kwargs)
    tensors = tuple(leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor))
    scripted = any(isinstance(one, torch.jit.ScriptModule) for one in model.modules())
    with _undisturbed(model) as written, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            made = _as_module(function, tensors) if scripted else _as_graph(function, tensors)
        except Exception as error:  # the model and the tracer raise many types
            raise CaptureError(
                f"{type(model).__name__} cannot be traced",
                source=user_frame(error),
                seen=reason(error),
                hint="run the model eagerly on these inputs first; capture='export' takes more of Python",
            ) from error
        names = written.names()
    program, arguments, root, graph = made
    return Trace(program, arguments, root, graph, function.result, list(caught), names)


@contextmanager
def _undisturbed(model: torch.nn.Module) -> Iterator[Written]:
    """Tracing runs the model: its state and the random numbers of the user are afterwards as they were."""
    fast_path = torch.backends.mha.get_fastpath_enabled()
    with torch.no_grad(), torch.random.fork_rng(devices=[]), state_kept(model), attributes_kept(model) as written:
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            yield written
        finally:
            torch.backends.mha.set_fastpath_enabled(fast_path)


_Made = tuple[Program, Callable[[Tape, list[TensorValue]], list[Value]], str, Any]


@dataclass(slots=True)
class _Recorded:
    """A graph where a scripted function is expected."""

    graph: Any


def _as_graph(function: _OnTensors, tensors: tuple[torch.Tensor, ...]) -> _Made:
    """One flat graph, in which parameters and buffers are inputs: no scripted copy of the modules is made."""
    model = function.model
    weights: list[tuple[torch.Tensor, str, str]] = [
        (tensor, target, "parameter") for target, tensor in model.named_parameters()
    ]
    weights += [(tensor, target, "buffer") for target, tensor in model.named_buffers()]
    state = tuple(tensor for tensor, _, _ in weights)
    stacks = _module_stacks(model)
    outer = torch_trace._trace_module_map
    torch_trace._trace_module_map = {module: path for path, module in model.named_modules()}
    try:
        graph, _ = torch._C._create_graph_by_tracing(
            lambda *given: function(*given[: len(tensors)]), tensors + state, lambda variable: "", False, False
        )
    finally:
        torch_trace._trace_module_map = outer
    program = Program(_Recorded(graph), None, False, type(model).__name__, stacks)

    def arguments(tape: Tape, given: list[TensorValue]) -> list[Value]:
        return [*given, *(tape.weight(tensor, target, kind) for tensor, target, kind in weights)]

    return program, arguments, "", graph


def _module_stacks(model: torch.nn.Module) -> dict[str, tuple[tuple[str, str], ...]]:
    """For every submodule's path the modules from the root to it, with their classes."""
    stacks: dict[str, tuple[tuple[str, str], ...]] = {}
    for path, module in model.named_modules():
        kind = type(module)
        outer = stacks.get(path.rpartition(".")[0], ()) if path else ()
        stacks[path] = (*outer, (path, f"{kind.__module__}.{kind.__qualname__}"))
    return stacks


def _as_module(function: _OnTensors, tensors: tuple[torch.Tensor, ...]) -> _Made:
    """A traced module, which calls the scripted modules in it."""
    made = torch.jit.trace(_Holder(function), tensors, check_trace=False)
    schema = made._c._get_method("forward").schema
    program = Program(made, schema, True, class_name(made._c.getattr(INNER)._type()).rpartition(".")[2])
    return program, lambda tape, given: list(given), INNER, made.inlined_graph
