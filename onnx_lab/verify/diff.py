"""diff(): where numbers begin to differ, one row per captured call, from one runtime session."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from onnx_lab.program.graph import Call, CapturedGraph
from onnx_lab.program.spec import SymDim, TensorSpec
from onnx_lab.verify.arrays import dtype_name, plain, read
from onnx_lab.verify.compare import Comparison, compare
from onnx_lab.verify.reference import run_calls
from onnx_lab.verify.runtime import Session

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    "call", "op", "module", "source", "status", "max_abs", "max_rel", "cosine", "dtype", "shape", "onnx_value",
    "index", "eager", "onnx", "reason",
)  # fmt: skip
_CHUNK_BYTES = 256 * 2**20  # values of the runtime held at one time


def diff(
    captured: CapturedGraph,
    model: ir.Model,
    values: Mapping[str, str | None],
    feeds: Mapping[str, Any],
    *,
    rtol: float | None = None,
    atol: float | None = None,
) -> pd.DataFrame:
    """Compare every value that both sides have.

    ONNX Runtime loads the model once, without optimizations, with all mapped values as outputs, and is
    run over groups of them, so that at most about 256 MB of its values are held at a time; PyTorch runs
    the captured graph call by call beside it.

    Args:
        values: ONNX value name by captured value name.
        feeds: input tensors by name.
        rtol, atol: tolerances; default: by dtype, integers and bools exact.

    Returns:
        One row per captured call in order: call, op, module, source, status (match, mismatch, nan, shape,
        dtype, not compared), max_abs, max_rel, cosine, dtype, shape, onnx_value, index of the worst
        element, its eager and onnx values, and the reason when a row was not compared. ``.attrs``
        holds ``first_divergent``, the name of the first call that differs, or None.
    """
    import pandas as pd

    available = {value.name for node in model.graph for value in node.outputs if value.name}
    wanted = [call.name for call in captured.calls if values.get(call.name) in available]
    own = [value.name for value in model.graph.outputs]
    names = list(dict.fromkeys(str(values[name]) for name in wanted))
    session = Session(model, optimize=False, extra_outputs=[name for name in names if name not in own])
    found = _Values(session, feeds, names, _nbytes(captured, values, feeds))
    rows = []
    for call, value in run_calls(captured, feeds):
        name = values.get(call.name)
        if name not in available:
            rows.append(_row(call, None, value, name, _reason(call, name)))
            continue
        array, kind = read(found.get(str(name)))
        result = compare(plain(value), array, dtype_name(value), actual_dtype=kind, rtol=rtol, atol=atol, scaled=True)
        rows.append(_row(call, result, value, name, result.detail))
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    frame["status"] = pd.Categorical(frame["status"])
    wrong = frame[frame["status"].isin(["mismatch", "nan", "shape", "dtype"])]
    frame.attrs["first_divergent"] = None if wrong.empty else str(wrong.iloc[0]["call"])
    return frame


class _Values:
    """Runtime values on demand: fetched in groups, in the order of the model, each group when first read."""

    def __init__(
        self, session: Session, feeds: Mapping[str, Any], names: Sequence[str], nbytes: Mapping[str, int]
    ) -> None:
        self._session, self._feeds = session, feeds
        self._groups = list(_grouped(names, nbytes))
        self._held: dict[str, Any] = {}
        self._group_of = {name: index for index, group in enumerate(self._groups) for name in group}

    def get(self, name: str) -> Any:
        if name not in self._held:
            group = self._groups[self._group_of[name]]
            self._held = dict(zip(group, self._session.run(self._feeds, group), strict=True))
        return self._held[name]


def _grouped(names: Sequence[str], nbytes: Mapping[str, int]) -> Iterator[list[str]]:
    """Consecutive names whose values together stay below the bound."""
    group: list[str] = []
    held = 0
    for name in names:
        size = nbytes.get(name, 0)
        if group and held + size > _CHUNK_BYTES:
            yield group
            group, held = [], 0
        group.append(name)
        held += size
    if group:
        yield group


def _nbytes(
    captured: CapturedGraph, values: Mapping[str, str | None], feeds: Mapping[str, Any]
) -> dict[str, int]:
    """Bytes of each runtime value for these inputs; an unknown size counts as the largest known one."""
    known: dict[str, int] = {}
    for given in captured.inputs:
        if isinstance(given.spec, TensorSpec):
            for dim, size in zip(given.spec.shape, feeds[given.name].shape, strict=True):
                if isinstance(dim, SymDim):
                    known[dim.expr] = int(size)
    largest = max(known.values(), default=1)
    found: dict[str, int] = {}
    for call in captured.calls:
        name = values.get(call.name)
        if name is not None and isinstance(call.spec, TensorSpec):
            sizes = [dim if isinstance(dim, int) else known.get(dim.expr, largest) for dim in call.spec.shape]
            found[name] = 8 * math.prod(sizes)
    return found


def _reason(call: Call, name: str | None) -> str:
    if isinstance(call.spec, tuple):
        return "several results: each is compared where it is picked"
    return "folded into another node" if name is None else "is an input, a weight or a constant of the model"


def _row(call: Call, result: Comparison | None, value: Any, name: str | None, reason: str) -> dict[str, Any]:
    shape = getattr(value, "shape", None)
    return {
        "call": call.name,
        "op": str(call.key),
        "module": call.source.module_path,
        "source": call.source.location,
        "status": "not compared" if result is None else result.status,
        "max_abs": float("nan") if result is None else result.max_abs,
        "max_rel": float("nan") if result is None else result.max_rel,
        "cosine": float("nan") if result is None else result.cosine,
        "dtype": "" if shape is None else str(value.dtype).removeprefix("torch."),
        "shape": "" if shape is None else str(list(shape)),
        "onnx_value": name or "",
        "index": "" if result is None or result.index is None else str(list(result.index)),
        "eager": None if result is None else result.expected,
        "onnx": None if result is None else result.actual,
        "reason": reason,
    }
