"""Rows about operators, as plain data: the source of tables and HTML alike."""

from __future__ import annotations

from collections import Counter
from typing import Any

import onnx_ir as ir

from onnx_lab.program.graph import CapturedGraph
from onnx_lab.program.report import Report
from onnx_lab.view.html import module_text


def op_rows(captured: CapturedGraph, model: ir.Model, report: Report) -> list[dict[str, Any]]:
    """One row per captured operator, most frequent first.

    Each has ``op``, ``count``, ``how`` (lowering name or "decomposed"), ``onnx`` (ONNX operators made,
    with counts), ``modules`` and ``source`` (first line).
    """
    made: dict[str, Counter[str]] = {}
    lowerings: dict[str, str] = {}
    for node in model.graph.all_nodes():
        for name in node.metadata_props.get("onnx_lab.call", "").split(","):
            made.setdefault(name, Counter())[node.op_type] += 1
            lowerings.setdefault(name, node.metadata_props.get("onnx_lab.lowering", ""))
    by_prefix = _decomposed_nodes(made, captured, report)
    rows: dict[str, dict[str, Any]] = {}
    for call in captured.all_calls():
        row = rows.setdefault(
            call.key,
            {
                "op": str(call.key),
                "count": 0,
                "how": "",
                "onnx": Counter(),
                "modules": [],
                "source": call.source.location,
            },
        )
        row["count"] += 1
        row["onnx"].update(made.get(call.name, {}))
        row["onnx"].update(by_prefix.get(call.name, {}))
        row["how"] = row["how"] or lowerings.get(call.name, "")
        if call.key in report.decomposed:
            row["how"] = "decomposed"
        if call.source.module_path not in row["modules"]:
            row["modules"].append(call.source.module_path)
    for row in rows.values():
        row["how"] = row["how"] or "no node needed"
        row["onnx"] = ", ".join(f"{name} x{count}" if count > 1 else name for name, count in row["onnx"].most_common())
        row["modules"] = module_text(row["modules"])
    return sorted(rows.values(), key=lambda row: -row["count"])


def _decomposed_nodes(
    made: dict[str, Counter[str]], captured: CapturedGraph, report: Report
) -> dict[str, Counter[str]]:
    """Nodes of decomposed calls: the inner calls are named after the outer one."""
    found: dict[str, Counter[str]] = {}
    outer = [call.name for call in captured.all_calls() if call.key in report.decomposed]
    for name in outer:
        for inner, nodes in made.items():
            if inner.startswith(f"{name}_"):
                found.setdefault(name, Counter()).update(nodes)
    return found
