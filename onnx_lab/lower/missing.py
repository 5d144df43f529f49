"""Calls that could not be lowered, collected so that all are reported together."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from onnx_lab.errors import LoweringError, UnsupportedOperatorsError
from onnx_lab.lower.registry import Registry
from onnx_lab.program.graph import Call
from onnx_lab.program.op_key import OpKey
from onnx_lab.program.report import Report
from onnx_lab.program.spec import Spec


@dataclass(slots=True)
class MissingOperator:
    """One operator (and one reason) with all the calls that need it."""

    key: str
    reason: str
    error: LoweringError | None
    calls: list[Call] = field(default_factory=list)
    shapes: list[str] = field(default_factory=list)


class MissingCalls:
    """Rows by operator and reason, in order of first use."""

    def __init__(self, registry: Registry) -> None:
        self.rows: dict[tuple[str, str], MissingOperator] = {}
        self._registry = registry
        self._log: list[tuple[str, str]] = []  # the row of each call, in order

    def add(self, call: Call, specs: Mapping[str, Spec], error: LoweringError | None) -> None:
        reason = error.what if error is not None else "no lowering and no decomposition"
        key = call.key
        if call.source.chain:
            # The user knows the operator that was written, not what it was decomposed into.
            key, reason = OpKey(call.source.chain[0]), f"it decomposes into {call.key}: {reason}"
        row = self.rows.setdefault((key, reason), MissingOperator(key, reason, error))
        row.calls.append(call)
        self._log.append((key, reason))
        shapes = ", ".join(str(specs.get(ref.name)) for ref in call.refs())
        if shapes not in row.shapes:
            row.shapes.append(shapes)

    def mark(self) -> int:
        """Number of calls added so far."""
        return len(self._log)

    def reset(self, mark: int) -> None:
        """Forget all calls added since ``mark``."""
        for key in reversed(self._log[mark:]):
            self.rows[key].calls.pop()
            if not self.rows[key].calls:
                del self.rows[key]
        del self._log[mark:]

    def table(self) -> list[dict[str, Any]]:
        """Rows with op, count, modules, source, shapes, reason and the nearest supported spelling."""
        return [
            {
                "op": row.key,
                "count": len(row.calls),
                "modules": sorted({call.source.module_path for call in row.calls}),
                "source": row.calls[0].source,
                "shapes": row.shapes[:5],
                "reason": row.reason,
                "nearest": self.nearest(row.key),
            }
            for row in self.rows.values()
        ]

    def nearest(self, key: str) -> str:
        """A supported key that is spelled alike: another overload first, else a similar name."""
        wanted, known = OpKey(key), [OpKey(one) for one in self._registry]
        for one in known:
            if one.qualified_name == wanted.qualified_name and one != wanted:
                return one
        names = {one.name: one for one in known}
        close = difflib.get_close_matches(wanted.name.strip("_"), names, n=1, cutoff=0.75)
        return names[close[0]] if close else ""

    def error(self, report: Report) -> LoweringError:
        """One error for all rows; a single refused case keeps its own, more precise error."""
        rows = list(self.rows.values())
        if len(rows) == 1 and rows[0].error is not None:
            rows[0].error.report = report
            return rows[0].error
        operators = self.table()
        total = sum(row["count"] for row in operators)
        return UnsupportedOperatorsError(
            f"{len(operators)} operators cannot be lowered ({total} calls)",
            operators=operators,
            op=operators[0]["op"],
            source=operators[0]["source"],
            hint='pass lowerings={"namespace::op.overload": function}, or rewrite these lines; see .operators for all',
            report=report,
        )
