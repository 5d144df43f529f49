"""What tracing freezes: found from the tracer's own warnings and from a second trace on other inputs."""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.jit._trace import TracerWarning

from onnx_lab.capture.refusals import refuses_otherwise
from onnx_lab.capture.sources import is_torch_file
from onnx_lab.capture.torchscript.graphs import SourceOf
from onnx_lab.program.report import Frozen
from onnx_lab.program.source import UNKNOWN, Source

# How the tracer's warnings begin → what was frozen, and the capture that keeps it.
_WARNINGS: tuple[tuple[str, str, str], ...] = (
    ("Converting a tensor to a Python boolean", "a branch or loop decided by a tensor's value", "script"),
    ("Converting a tensor to a Python integer", "a number read from a tensor or a size", "script"),
    ("Converting a tensor to a Python float", "a number read from a tensor", "script"),
    ("Converting a tensor to a Python number", "a number read from a tensor", "script"),
    ("Converting a tensor to a Python index", "an index read from a tensor", "script"),
    ("Converting a tensor to a Python list", "a list read from a tensor", "script"),
    ("Converting a tensor to a NumPy array", "values that NumPy computed", ""),
    ("Iterating over a tensor", "the number of rows that a loop runs over", "script"),
    ("Using len to get tensor shape", "a size", "script"),
    ("torch.tensor results are registered as constants", "a tensor made of Python numbers", "script"),
    ("torch.as_tensor results are registered as constants", "a tensor made of Python numbers", "script"),
    ("torch.Tensor results are registered as constants", "a tensor made of Python numbers", "script"),
    ("torch.from_numpy results are registered as constants", "a tensor made of a NumPy array", ""),
)


def from_warnings(caught: Sequence[Any]) -> Iterator[Frozen]:
    """What the tracer warned of."""
    for one in caught:
        text = str(one.message)
        found = next((row for row in _WARNINGS if text.startswith(row[0])), None)
        if found is None or not issubclass(one.category, TracerWarning):
            continue
        if is_torch_file(one.filename) or refuses_otherwise(one.filename, one.lineno):
            continue  # checks of its arguments
        code = linecache.getline(one.filename, one.lineno).strip() or None
        yield Frozen(found[1], "by the tracer", found[2], Source(one.filename, one.lineno, None, code))


def from_second_trace(first: Any, second: Any) -> Iterator[Frozen]:
    """Where two inlined traces of one model differ: a number is another one, or other operators were called."""
    reader = SourceOf()
    consumers = _consumers(first)
    at = UNKNOWN
    for one, other in itertools.zip_longest(first.nodes(), second.nodes()):
        here = _place(reader, one if one is not None else other)
        at = here if here.file is not None else at
        if one is None or other is None or not _alike(one, other):
            yield Frozen(
                "a branch or loop: other operators are called on other inputs", "by a second trace", "script", at
            )
            return
        if one.kind() == "prim::Constant" and not _same_constant(one, other):
            if here.file is None:
                here = _place(reader, consumers.get(one.output().unique(), one))
            what = f"{_shown(one)}, which is {_shown(other)} for other inputs"
            yield Frozen(what, "by a second trace", "script", here)


def _consumers(graph: Any) -> dict[int, Any]:
    """The first node that reads each value."""
    found: dict[int, Any] = {}
    for node in graph.nodes():
        for value in node.inputs():
            found.setdefault(value.unique(), node)
    return found


def _alike(one: Any, other: Any) -> bool:
    return bool(one.kind() == other.kind() and one.inputsSize() == other.inputsSize())


def _same_constant(one: Any, other: Any) -> bool:
    a, b = one.output().toIValue(), other.output().toIValue()
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.shape == b.shape and a.dtype == b.dtype and bool(torch.equal(a, b) or _same_nan(a, b))
    return type(a) is type(b) and (a == b or (a != a and b != b))


def _same_nan(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.is_floating_point() and torch.equal(a.isnan(), b.isnan()) and torch.equal(a.nan_to_num(), b.nan_to_num())


def _shown(node: Any) -> str:
    value = node.output().toIValue()
    if isinstance(value, torch.Tensor):
        if value.dim() == 0:
            return f"the number {value.item():.6g}" if value.is_floating_point() else f"the number {value.item()}"
        return f"a constant tensor {list(value.shape)}"
    return f"the number {value}" if isinstance(value, (int, float)) else repr(value)


def _place(reader: SourceOf, node: Any) -> Source:
    found = reader.read(node, UNKNOWN)
    return found if found.file is None or not is_torch_file(found.file) else UNKNOWN


def merged(rows: Iterator[Frozen]) -> list[Frozen]:
    """One row for each line and finding; what the tracer itself tells comes first."""
    seen: dict[tuple[Any, ...], Frozen] = {}
    told = set()
    for row in rows:
        place = (row.source.file, row.source.line)
        if row.found == "by a second trace" and place in told and place[0] is not None:
            continue
        told.add(place)
        seen.setdefault((*place, row.what), row)
    return list(seen.values())
