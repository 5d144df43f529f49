"""Traced programs: torch.jit.trace of one call, and what that froze."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnx_lab.capture.captured import Capture, copied
from onnx_lab.capture.failure import reason, user_frame
from onnx_lab.capture.kept import Written, attributes_kept, state_kept
from onnx_lab.capture.shapes import ShapeRequest, read_request, requested_axes
from onnx_lab.capture.signature import bind, read_signature, rename_inputs
from onnx_lab.capture.torchscript.front_end import DEPRECATED
from onnx_lab.capture.torchscript.frozen import from_second_trace, from_warnings, merged
from onnx_lab.capture.torchscript.script import Program, evaluate, graph_of
from onnx_lab.capture.torchscript.signature import Leaf
from onnx_lab.capture.torchscript.values import Value
from onnx_lab.capture.trees import register_containers
from onnx_lab.errors import CaptureError
from onnx_lab.program.graph import StateWrite
from onnx_lab.program.report import Frozen, Report

# The wrapped model's own name inside the traced module.
_INNER = "model"


class _OnTensors(torch.nn.Module):
    """A model as a function of its input tensors alone, with its result taken apart into tensors.

    The tracer takes nothing else; numbers, strings and None are the model's constants.
    """

    def __init__(self, model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        super().__init__()
        self.model = model
        self._leaves, self._tree = pytree.tree_flatten((tuple(args), dict(kwargs)))
        self.result: tuple[list[Any], pytree.TreeSpec] = ([], pytree.tree_structure(None))
        self.train(model.training)

    def train(self, mode: bool = True) -> _OnTensors:
        """The wrapper's own flag only: those of the model are set one by one."""
        self.training = mode
        return self

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        given = iter(tensors)
        leaves = [next(given) if isinstance(leaf, torch.Tensor) else leaf for leaf in self._leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self._tree)
        result = self.model(*args, **kwargs)
        register_containers(result)
        self.result = pytree.tree_flatten(result)
        return tuple(leaf for leaf in self.result[0] if isinstance(leaf, torch.Tensor))


@dataclass(slots=True)
class Trace:
    """One trace: torch's module, the structure of the result, the tracer's warnings, and attributes written."""

    script: Any
    result: tuple[list[Any], pytree.TreeSpec]
    caught: list[Any]
    written: list[str]


def capture_trace(
    model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], report: Report, *, training: str,
    dynamic_shapes: Any, dynamic_axes: Any, input_names: Any, output_names: Any, notes: list[str],
) -> Capture:  # fmt: skip
    """The capture of a module by tracing; what was frozen is in the report.

    Raises:
        InputError: the inputs do not fit the model.
        CaptureError: the tracer or the evaluation of what it recorded fails.
    """
    signature = read_signature(model, args, kwargs)
    rename_inputs(signature, input_names)
    bound = bind(signature.forward, args, kwargs)
    request = read_request(dynamic_shapes, dynamic_axes, signature, bound, model, args, kwargs)
    trace = _trace(model, args, kwargs)
    notes += [DEPRECATED] if any(_is_deprecation(one) for one in trace.caught) else []
    graph_before = trace.script.inlined_graph
    program = Program(trace.script, trace.script._c._get_method("forward").schema, True, type(model).__name__)
    try:
        made = evaluate(program, signature, request, bound, lambda tape, given: list(given), root=_INNER)
    except CaptureError as error:
        report.frozen += merged(_frozen(model, args, kwargs, request, trace, graph_before, notes))
        froze = ", ".join(f"{one.what} at {one.source.location or 'an unknown line'}" for one in report.frozen[:3])
        error.hint = f"tracing froze {froze}; capture='script' may keep it; or {error.hint}" if froze else error.hint
        raise
    graph = graph_of(made, signature, "trace", output_names, lambda tape, value: _structured(trace.result, value))
    graph.notes += notes
    graph.state_writes += [StateWrite(target, None) for target in trace.written]
    report.frozen += merged(_frozen(model, args, kwargs, request, trace, graph_before, graph.notes))
    return Capture(graph, None, signature, model, training)


def _structured(result: tuple[list[Any], pytree.TreeSpec], value: Value) -> Any:
    """The traced tensors in the structure that the model returns."""
    leaves, tree = result
    given = iter(value if isinstance(value, tuple) else (value,))
    placed = [
        Leaf(next(given)) if isinstance(leaf, torch.Tensor) else leaf if leaf is None else Leaf(leaf) for leaf in leaves
    ]
    return pytree.tree_unflatten(placed, tree)


def _trace(model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Trace:
    args, kwargs = copied((tuple(args), dict(kwargs)))
    wrapper = _OnTensors(model, args, kwargs)
    tensors = tuple(leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor))
    with _undisturbed(model) as written, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            made = torch.jit.trace(wrapper, tensors, check_trace=False)
        except Exception as error:  # the model and the tracer raise many types
            raise CaptureError(
                f"{type(model).__name__} cannot be traced",
                source=user_frame(error),
                seen=reason(error),
                hint="run the model eagerly on these inputs first; capture='export' takes more of Python",
            ) from error
        names = written.names()
    return Trace(made, wrapper.result, list(caught), names)


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


def _is_deprecation(one: Any) -> bool:
    return issubclass(one.category, DeprecationWarning) and "torch.jit" in str(one.message)


# -- what was frozen --------------------------------------------------------------------------------


def _frozen(
    model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], request: ShapeRequest, trace: Trace,
    graph: Any, notes: list[str],
) -> Iterator[Frozen]:  # fmt: skip
    yield from from_warnings(trace.caught)
    failed = ""
    for resized in (True, False) if request.asked else (False,):
        try:
            second = _trace(model, *_other_inputs(args, kwargs, request if resized else None))
        except CaptureError as error:
            failed = error.seen or error.what
            continue
        yield from from_second_trace(graph, second.script.inlined_graph)
        return
    notes.append(f"the model fails on other inputs ({failed}): what tracing froze is known from its warnings only")


def _other_inputs(
    args: Sequence[Any], kwargs: Mapping[str, Any], request: ShapeRequest | None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Inputs of the same structure with other values, and with one more row along the dynamic axes."""
    leaves, tree = pytree.tree_flatten((tuple(args), dict(kwargs)))
    longer: dict[int, list[int]] = {}
    if request is not None:
        for leaf, axis, _ in requested_axes(request):
            longer.setdefault(leaf, []).append(axis)
    made = [
        _other(leaf, longer.get(index, [])) if isinstance(leaf, torch.Tensor) else leaf
        for index, leaf in enumerate(leaves)
    ]
    other: tuple[tuple[Any, ...], dict[str, Any]] = pytree.tree_unflatten(made, tree)
    return other


def _other(tensor: torch.Tensor, axes: list[int]) -> torch.Tensor:
    for axis in axes:
        size = tensor.shape[axis]
        # Values that the tensor has already: an index stays one that the model takes.
        rows = torch.arange(size + 1) % max(size, 1)
        tensor = tensor.index_select(axis, rows) if size else tensor
    if tensor.dtype is torch.bool:
        return ~tensor
    if tensor.dim():
        tensor = tensor.flatten().roll(1).reshape(tensor.shape)
    return -tensor if tensor.is_floating_point() else tensor
