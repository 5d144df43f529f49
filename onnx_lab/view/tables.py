"""Tables as plain pandas DataFrames with documented columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from onnx_lab.extras import load_extra
from onnx_lab.program.graph import CapturedGraph
from onnx_lab.program.report import Report
from onnx_lab.view.mode_rows import mode_rows
from onnx_lab.view.op_rows import op_rows

if TYPE_CHECKING:
    import pandas as pd


def ops_table(captured: CapturedGraph, model: ir.Model, report: Report) -> pd.DataFrame:
    """Columns: op, count (int), how, onnx, modules, source; most frequent operator first."""
    return frame_of(op_rows(captured, model, report), ("op", "count", "how", "onnx", "modules", "source"))


def coverage_table(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Columns: op, count (int), supported (bool), how, lowering, modules, source, shapes, reason, nearest."""
    columns = ("op", "count", "supported", "how", "lowering", "modules", "source", "shapes", "reason", "nearest")
    return frame_of([_flat(row) for row in rows], columns)


def unsupported_table(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Columns: op, count (int), modules, source, shapes, reason, nearest."""
    return frame_of([_flat(row) for row in rows], ("op", "count", "modules", "source", "shapes", "reason", "nearest"))


def frozen_table(report: Report) -> pd.DataFrame:
    """Columns: what, source, code, found (how it is known), keep (the ``capture=`` that keeps it open)."""
    rows = [
        {
            "what": one.what,
            "source": one.source.location,
            "code": one.source.code or "",
            "found": one.found,
            "keep": one.keep,
        }
        for one in report.frozen
    ]
    return frame_of(rows, ("what", "source", "code", "found", "keep"))


def modes_table(captured: CapturedGraph, report: Report) -> pd.DataFrame:
    """Columns: module, type, asked, flag (of the module itself), effective (train or eval), why, source."""
    return frame_of(mode_rows(captured, report), ("module", "type", "asked", "flag", "effective", "why", "source"))


def nodes_table(model: ir.Model) -> pd.DataFrame:
    """One row per ONNX node: name, op_type, domain, inputs, outputs, dtype, shape, module, source, call, op."""
    columns = ("name", "op_type", "domain", "inputs", "outputs", "dtype", "shape", "module", "source", "call", "op")
    rows = []
    for node in model.graph.all_nodes():
        first, props = node.outputs[0], node.metadata_props
        rows.append(
            {
                "name": node.name,
                "op_type": node.op_type,
                "domain": node.domain,
                "inputs": ", ".join(value.name or "" if value is not None else "" for value in node.inputs),
                "outputs": ", ".join(value.name or "" for value in node.outputs),
                "dtype": first.dtype.name.lower() if first.dtype is not None else "",
                "shape": "" if first.shape is None else str([getattr(dim, "value", dim) for dim in first.shape]),
                "module": props.get("onnx_lab.module", ""),
                "source": props.get("onnx_lab.source", ""),
                "call": props.get("onnx_lab.call", ""),
                "op": props.get("onnx_lab.op", ""),
            }
        )
    return frame_of(rows, columns)


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    source = row["source"]
    return {
        **row,
        "modules": ", ".join(module or "(root)" for module in row["modules"]),
        "source": source.location,
        "shapes": "; ".join(row["shapes"]),
    }


def frame_of(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> pd.DataFrame:
    """A DataFrame of rows, empty with its columns when there are none.

    Raises:
        MissingExtraError: pandas is not installed.
    """
    made: pd.DataFrame = load_extra("pandas", "a table").DataFrame(
        [{column: row[column] for column in columns} for row in rows], columns=list(columns)
    )
    return made
