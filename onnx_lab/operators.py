"""Coverage: every operator of a captured model, and how it would be lowered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onnx_lab.lower.lowerer import Lowerer
from onnx_lab.lower.missing import MissingCalls
from onnx_lab.program.report import Report

if TYPE_CHECKING:
    import pandas as pd


@dataclass(slots=True)
class Coverage:
    """What can be lowered, without exporting.

    Attributes:
        rows: one dict per operator with ``op``, ``count``, ``supported``, ``how`` ("lowering",
            "decomposition", "missing" or "case"), ``lowering``, ``modules``, ``source``, ``shapes``,
            ``reason`` and ``nearest``.
        opset: the opset that was asked for.
        report: stages and tries of the capture.
    """

    rows: list[dict[str, Any]]
    opset: int
    report: Report

    @classmethod
    def of(cls, lowerer: Lowerer, missing: MissingCalls, report: Report, opset: int) -> Coverage:
        refused = {row["op"]: row for row in missing.table()}
        rows: dict[str, dict[str, Any]] = {}
        for call in lowerer.graph.all_calls():
            row = rows.get(call.key)
            if row is None:
                row = rows[call.key] = _row(call.key, call.source, lowerer, refused.get(call.key), report)
            row["count"] += 1
            if call.source.module_path not in row["modules"]:
                row["modules"].append(call.source.module_path)
        for key, found in refused.items():  # operators that only a decomposition brought in
            rows.setdefault(key, {**_row(key, found["source"], lowerer, found, report), "count": found["count"]})
        ordered = sorted(rows.values(), key=lambda row: (row["supported"], -row["count"], row["op"]))
        return cls(ordered, opset, report)

    @property
    def supported(self) -> bool:
        """Whether every operator can be lowered."""
        return all(row["supported"] for row in self.rows)

    @property
    def missing(self) -> list[dict[str, Any]]:
        return [row for row in self.rows if not row["supported"]]

    def frame(self) -> pd.DataFrame:
        """The rows as a DataFrame (needs pandas)."""
        from onnx_lab.view.tables import coverage_table

        return coverage_table(self.rows)

    def __repr__(self) -> str:
        calls = sum(row["count"] for row in self.rows)
        missing = ", ".join(row["op"] for row in self.missing[:5])
        verdict = f"missing: {missing}" if missing else "all can be lowered"
        return f"Coverage({len(self.rows)} operators, {calls} calls, opset {self.opset}; {verdict})"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        from onnx_lab.view.html import coverage_bundle

        return coverage_bundle(self)


def _row(key: str, source: Any, lowerer: Lowerer, refused: dict[str, Any] | None, report: Report) -> dict[str, Any]:
    function = lowerer.function_or_none(key)
    how = "decomposition" if key in report.decomposed else "lowering"
    if key == "_operator::getitem":
        how = "lowering"
    if refused is not None:
        how = "case" if function is not None else "missing"
    return {
        "op": key,
        "count": 0,
        "supported": refused is None,
        "how": how,
        "lowering": getattr(function, "__name__", "") if function is not None else "",
        "modules": [],
        "source": source,
        "shapes": refused["shapes"] if refused else [],
        "reason": refused["reason"] if refused else "",
        "nearest": refused["nearest"] if refused else "",
    }
