"""diff(): where numbers begin to differ, one row per captured call, from one runtime session."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import onnx_ir as ir
import torch

from onnx_lab.program.graph import Call, CapturedGraph, Ref, walk_calls
from onnx_lab.program.spec import Dim, TensorSpec
from onnx_lab.verify.bodies import BodyRunner, Values, outer_names
from onnx_lab.verify.compare import compare
from onnx_lab.verify.reference import run_calls
from onnx_lab.verify.runtime import Session

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    "call", "op", "module", "source", "status", "max_abs", "max_rel", "cosine", "dtype", "shape", "onnx_value",
    "index", "eager_worst", "onnx_worst", "reason",
)  # fmt: skip
DIVERGENT = ("mismatch", "nan", "shape", "dtype")
STATUSES = ("match", *DIVERGENT, "folded", "not compared")
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
    the captured graph call by call beside it. Both start from the inputs: an error shows in its own row
    and in those that depend on it.

    Args:
        values: ONNX value name by captured value name, None for a value that the model does not have.
        feeds: input tensors by name.
        rtol, atol: tolerances; default: by dtype, with allowance for cancellation; integers and bools exact.

    Returns:
        One row per captured call in order: call, op, module, source, status (match, mismatch, nan, shape,
        dtype, folded: the model has no such value, not compared), max_abs, max_rel, cosine, dtype, shape,
        onnx_value, index of the worst element, the values of both sides there, and the reason when a row
        is not compared or differs in kind. ``.attrs["first_divergent"]`` is the name of the first call
        that differs, or None.

    Raises:
        RuntimeRejectedError: ONNX Runtime refuses the model or fails.
        VerificationError: PyTorch cannot run a captured call, or an input is missing.
    """
    import pandas as pd

    # What is known under no other name may still be an output: a complex value is one only when packed.
    packed = {output.value.name: output.name for output in captured.outputs if isinstance(output.value, Ref)}
    values = packed | {name: known for name, known in values.items() if known is not None}
    source = _RuntimeValues(model, captured, values, feeds)
    rows = []
    inside = _Inside(BodyRunner(model, values, source), values, rtol, atol)
    for call, value in run_calls(captured, feeds, inside):
        rows.append(_compared(call, value, values.get(call.name), source, rtol, atol))
        rows += inside.take(call)
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    frame["status"] = pd.Categorical(frame["status"], categories=STATUSES).remove_unused_categories()
    wrong = frame[frame["status"].isin(DIVERGENT)]
    frame.attrs["first_divergent"] = None if wrong.empty else str(wrong.iloc[0]["call"])
    return frame


_INSIDE = "inside the body of a branch or loop"
_NOT_RUN = "no turn of its branch or loop is run"


class _Inside:
    """Rows of the calls in branches and loops: of all turns the worst."""

    def __init__(
        self, runner: BodyRunner, values: Mapping[str, str | None], rtol: float | None, atol: float | None
    ) -> None:
        self._runner, self._values = runner, values
        self._rtol, self._atol = rtol, atol
        self._rows: dict[str, dict[str, Any]] = {}
        self._turns: dict[str, int] = {}

    def enter(self, call: Call, region: int, turn: int) -> None:
        self._runner.enter(call, region, turn)

    def leave(self) -> None:
        self._runner.leave()

    def value(self, call: Call, value: Any) -> None:
        frame = self._runner.top
        if frame.inside is None:
            row = _row(call, "not compared", reason=frame.reason)
        else:
            row = _compared(call, value, self._values.get(call.name), frame, self._rtol, self._atol)
        turn = self._turns.get(call.name, 0)
        self._turns[call.name] = turn + 1
        before = self._rows.get(call.name)
        if before is None or _badness(row) > _badness(before):
            self._rows[call.name] = row | {"turn": turn}

    def take(self, call: Call) -> list[dict[str, Any]]:
        """The rows of the calls in the bodies of a call, in order."""
        rows = []
        for region in call.regions:
            for inner in walk_calls(region.calls):
                row = self._rows.pop(inner.name, None)
                turns = self._turns.pop(inner.name, 0)
                if row is None:
                    rows.append(_row(inner, "not compared", reason=_NOT_RUN))
                    continue
                turn = row.pop("turn")
                if turns > 1 and row["status"] in ("match", *DIVERGENT):
                    row["reason"] = "; ".join(filter(None, [row["reason"], f"turn {turn} of {turns}, the worst"]))
                rows.append(row)
        return rows


def _badness(row: dict[str, Any]) -> tuple[int, float]:
    """How bad a row is: rows that differ first, then those with a larger difference."""
    status = row["status"]
    rank = 2 if status in DIVERGENT else 1 if status == "match" else 0
    return rank, row["max_abs"] if row["max_abs"] == row["max_abs"] else 0.0


def _compared(
    call: Call, value: Any, name: str | None, source: Values, rtol: float | None, atol: float | None
) -> dict[str, Any]:
    """The row of one call."""
    if isinstance(value, (list, tuple)):
        return _row(call, "not compared", reason="several results: each is compared where it is picked")
    if not isinstance(value, (torch.Tensor, bool, int, float)):
        return _row(call, "not compared", reason="makes no tensor")
    shown = {"dtype": _dtype(value), "shape": str(list(getattr(value, "shape", ())))}
    if name is None or not source.has(name):
        split = isinstance(value, torch.Tensor) and value.is_complex()
        reason = "complex: the model holds its two parts" if split else "the model needs no such value"
        return _row(call, "not compared" if split else "folded", reason=reason, **shown)
    actual = source.get(name)
    if actual is None:
        return _row(call, "not compared", reason=_INSIDE, onnx_value=name, **shown)
    found = compare(value, actual, rtol=rtol, atol=atol, intermediate=True)
    return _row(
        call,
        found.status,
        reason=found.detail,
        onnx_value=name,
        max_abs=found.max_abs,
        max_rel=found.max_rel,
        cosine=found.cosine,
        index="" if found.index is None else str(list(found.index)),
        eager_worst=found.expected,
        onnx_worst=found.actual,
        **shown,
    )


def _row(call: Call, status: str, **known: Any) -> dict[str, Any]:
    nan = float("nan")
    row: dict[str, Any] = {"max_abs": nan, "max_rel": nan, "cosine": nan, "dtype": "", "shape": "", "onnx_value": ""}
    row |= {"index": "", "eager_worst": None, "onnx_worst": None, "reason": ""}
    row |= {"call": call.name, "op": str(call.key), "status": status}
    row |= {"module": call.source.module_path, "source": call.source.location}
    return row | known


def _dtype(value: Any) -> str:
    return str(value.dtype).removeprefix("torch.") if isinstance(value, torch.Tensor) else type(value).__name__


class _RuntimeValues:
    """Values of the model by name, from one session: fetched in groups, in order, each when first read."""

    def __init__(
        self,
        model: ir.Model,
        captured: CapturedGraph,
        values: Mapping[str, str | None],
        feeds: Mapping[str, Any],
    ) -> None:
        self._feeds = feeds
        # A call may have become an input, a weight or a constant of the model.
        self._given: dict[str, Any] = {
            name: value.const_value for name, value in model.graph.initializers.items() if value.const_value is not None
        } | dict(feeds)
        made = {value.name for node in model.graph for value in node.outputs if value.name}
        self._inside = {value.name for node in model.graph.all_nodes() for value in node.outputs} - made
        mapped = [values.get(call.name) for call in captured.calls if not isinstance(call.spec, tuple)]
        mapped += sorted(outer_names(model))
        names = list(dict.fromkeys(name for name in mapped if name in made))
        own = {value.name for value in model.graph.outputs}
        self._session = Session(model, optimize=False, extra_outputs=[name for name in names if name not in own])
        groups = _grouped(names, _nbytes(captured, values, feeds))
        self._group_of = {name: group for group in groups for name in group}
        self._held: dict[str, Any] = {}

    def has(self, name: str) -> bool:
        """Whether the model has the value anywhere; passes remove what nothing reads."""
        return name in self._given or name in self._group_of or name in self._inside

    def get(self, name: str) -> Any:
        """The value, or None when it is not one of the main graph's."""
        if name in self._given:
            return self._given[name]
        if name not in self._group_of:
            return None
        if name not in self._held:
            self._held = {}  # before the next ones are made
            group = self._group_of[name]
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


def _nbytes(captured: CapturedGraph, values: Mapping[str, str | None], feeds: Mapping[str, Any]) -> dict[str, int]:
    """About the bytes of each runtime value for these inputs."""
    known: dict[str, int] = {}
    for given in captured.inputs:
        if isinstance(given.spec, TensorSpec):
            sizes = getattr(feeds.get(given.name), "shape", ())
            known |= {str(dim): int(size) for dim, size in zip(given.spec.shape, sizes, strict=False)}
    found: dict[str, int] = {}
    for call in captured.calls:
        name = values.get(call.name)
        if name is not None and isinstance(call.spec, TensorSpec):
            width: int = getattr(torch, call.spec.dtype).itemsize
            found[name] = width * math.prod(_size(dim, known) for dim in call.spec.shape)
    return found


def _size(dim: Dim, known: Mapping[str, int]) -> int:
    """The size of a dim; one that is not a product of known ones counts as the largest of them."""
    if isinstance(dim, int):
        return dim
    if dim.expr in known:
        return known[dim.expr]
    factors = [int(one) if one.isdigit() else known.get(one) for one in dim.expr.split("*")]
    whole = [one for one in factors if one is not None]
    return math.prod(whole) if len(whole) == len(factors) else max(known.values(), default=1)
