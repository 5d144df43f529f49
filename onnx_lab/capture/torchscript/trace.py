"""capture="trace": a traced call as a captured graph, with what tracing froze."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnx_lab.capture.captured import Capture
from onnx_lab.capture.shapes import ShapeRequest, read_request, requested_axes
from onnx_lab.capture.signature import bind, read_signature, rename_inputs
from onnx_lab.capture.torchscript.front_end import DEPRECATED
from onnx_lab.capture.torchscript.frozen import from_second_trace, from_warnings, merged
from onnx_lab.capture.torchscript.script import evaluate, graph_of
from onnx_lab.capture.torchscript.signature import Leaf
from onnx_lab.capture.torchscript.tracing import Trace, trace
from onnx_lab.capture.torchscript.values import Value
from onnx_lab.errors import CaptureError
from onnx_lab.program.graph import StateWrite
from onnx_lab.program.report import Frozen, Report


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
    first = trace(model, args, kwargs)
    notes.append(DEPRECATED)
    try:
        made = evaluate(first.program, signature, request, bound, first.arguments, root=first.root)
    except CaptureError as error:
        report.frozen += merged(_frozen(model, args, kwargs, request, first, notes))
        froze = ", ".join(f"{one.what} at {one.source.location or 'an unknown line'}" for one in report.frozen[:3])
        error.hint = f"tracing froze {froze}; capture='script' may keep it; or {error.hint}" if froze else error.hint
        raise
    graph = graph_of(made, signature, "trace", output_names, lambda tape, value: _structured(first.result, value))
    graph.notes += notes
    graph.state_writes += [StateWrite(target, None) for target in first.written]
    report.frozen += merged(_frozen(model, args, kwargs, request, first, graph.notes))
    return Capture(graph, None, signature, model, training)


def _structured(result: tuple[list[Any], pytree.TreeSpec], value: Value) -> Any:
    """The traced tensors in the structure that the model returns."""
    leaves, tree = result
    given = iter(value if isinstance(value, tuple) else (value,))
    placed = [
        Leaf(next(given)) if isinstance(leaf, torch.Tensor) else leaf if leaf is None else Leaf(leaf) for leaf in leaves
    ]
    return pytree.tree_unflatten(placed, tree)


# -- what was frozen --------------------------------------------------------------------------------


def _frozen(
    model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], request: ShapeRequest, first: Trace,
    notes: list[str],
) -> Iterator[Frozen]:  # fmt: skip
    yield from from_warnings(first.caught)
    failed = ""
    for resized in (True, False) if request.asked else (False,):
        try:
            second = trace(model, *_other_inputs(args, kwargs, request if resized else None))
        except CaptureError as error:
            failed = error.seen or error.what
            continue
        yield from from_second_trace(first.graph, second.graph)
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
