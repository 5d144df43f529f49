"""Self-contained HTML: no script, no ids, readable in light and dark."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence
from typing import Any

_STYLE = (
    "font-family:var(--jp-ui-font-family,system-ui,sans-serif);font-size:13px;line-height:1.45;"
    "color:var(--jp-ui-font-color1,inherit);max-width:1100px"
)
_CELL = "padding:2px 12px 2px 0;text-align:left;vertical-align:top;border:none"
_HEAD = "text-align:left;padding:3px 12px 3px 0;border-bottom:1px solid var(--jp-border-color1,#94a3b8)"
_CODE = "font-family:var(--jp-code-font-family,monospace);font-size:12px"
# Colour and symbol together, so that neither alone has to tell.
_MARKS = {
    "match": ("✓", "#15803d"),
    "yes": ("✓", "#15803d"),
    "mismatch": ("✗", "#dc2626"),
    "nan": ("✗", "#dc2626"),
    "shape": ("✗", "#dc2626"),
    "dtype": ("✗", "#dc2626"),
    "no": ("✗", "#dc2626"),
    "folded": ("–", "#64748b"),
    "not compared": ("–", "#64748b"),
}
ROWS_SHOWN = 60


def escape(value: Any) -> str:
    return html.escape(str(value), quote=True)


def block(inner: str) -> str:
    """The outermost element of everything that is shown."""
    return f'<div style="{_STYLE}">{inner}</div>'


def details(title: str, inner: str, *, opened: bool = False) -> str:
    """A part that the reader can unfold."""
    state = " open" if opened else ""
    return (
        f'<details{state} style="margin:6px 0"><summary style="cursor:pointer;font-weight:600">{escape(title)}'
        f"</summary>{inner}</details>"
    )


def card(title: str, rows: Mapping[str, str]) -> str:
    """Labels and texts in two columns."""
    body = "".join(
        f'<tr style="background:none"><td style="{_CELL};opacity:.7;white-space:nowrap">{escape(label)}</td>'
        f'<td style="{_CELL};{_CODE}">{escape(text)}</td></tr>'
        for label, text in rows.items()
    )
    return (
        f'<div style="font-weight:600;font-size:15px;margin-bottom:4px">{escape(title)}</div>'
        f'<table style="border-collapse:collapse;margin:0;font-size:13px">{body}</table>'
    )


def note_list(notes: Sequence[str]) -> str:
    if not notes:
        return ""
    items = "".join(f"<li>{escape(note)}</li>" for note in notes[:12])
    more = f"<li>{len(notes) - 12} more in .report.notes</li>" if len(notes) > 12 else ""
    return f'<ul style="margin:6px 0 6px 18px;padding:0">{items}{more}</ul>'


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, status: str | None = None, total: int = 0) -> str:
    """A table; the column ``status`` gets a symbol and a colour, empty columns are left out.

    ``total`` rows exist in all.
    """
    filled = [at for at in range(len(columns)) if not rows or any(row[at] not in ("", None) for row in rows)]
    columns, rows = [columns[at] for at in filled], [[row[at] for at in filled] for row in rows]
    head = "".join(f'<th style="{_HEAD}">{escape(column)}</th>' for column in columns)
    at = columns.index(status) if status in columns else -1
    body = []
    for row in rows:
        cells = "".join(_cell(value, index == at) for index, value in enumerate(row))
        body.append(f'<tr style="background:none">{cells}</tr>')
    caption = f'<div style="opacity:.7">{len(rows)} of {total} rows shown</div>' if total > len(rows) else ""
    return (
        '<div style="overflow-x:auto"><table style="border-collapse:collapse;margin:4px 0;font-size:13px">'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>{caption}"
    )


def _cell(value: Any, is_status: bool) -> str:
    if is_status and str(value) in _MARKS:
        mark, color = _MARKS[str(value)]
        return f'<td style="{_CELL};color:{color};white-space:nowrap;font-weight:600">{mark} {escape(value)}</td>'
    if isinstance(value, float):
        return f'<td style="{_CELL};{_CODE};white-space:nowrap">{"" if value != value else f"{value:.3g}"}</td>'
    if isinstance(value, (list, tuple)):
        value = ", ".join(map(str, value))
    text = "" if value is None else str(value)
    short = text if len(text) <= 90 else text[:87] + "..."
    # A shape or a name broken over lines makes the table several times as tall.
    wrap = ";white-space:nowrap" if len(text) <= 48 else ""
    return f'<td style="{_CELL};{_CODE}{wrap}" title="{escape(text)}">{escape(short)}</td>'


def frame_html(frame: Any, columns: Sequence[str], *, status: str | None = None, limit: int = ROWS_SHOWN) -> str:
    """Some columns of a DataFrame as a table of at most ``limit`` rows."""
    shown = frame[list(columns)].head(limit)
    return table(list(columns), list(shown.itertuples(index=False, name=None)), status=status, total=len(frame))


def picture_html(svg: str | None, text: str, why: str = "") -> str:
    """An SVG as an image that scales down to its place; without one, the text form and the reason."""
    if svg is None:
        reason = f'<div style="opacity:.7">no picture: {escape(why)}</div>' if why else ""
        return block(f'<pre style="margin:0;{_CODE}">{escape(text)}</pre>{reason}')
    data = base64.b64encode(svg.encode()).decode()
    return (
        '<div style="background:#fff;border:1px solid var(--jp-border-color2,#cbd5e1);border-radius:6px;padding:6px;'
        'overflow:auto;max-height:720px;display:inline-block;max-width:100%">'
        f'<img alt="{escape(text)}" src="data:image/svg+xml;base64,{data}" style="max-width:100%;height:auto"></div>'
    )


# -- what results show ----------------------------------------------------------------------------------


def result_bundle(result: Any) -> dict[str, Any]:
    """Text and HTML of an export result: summary, notes, folded ONNX graph, operators."""
    from onnx_lab.view.drawing import Drawing
    from onnx_lab.view.text import facts, notes_of, result_text

    rows = facts(result)
    parts = [card(f"{rows.pop('model')} → ONNX", rows), note_list(notes_of(result))]
    parts.append(details("ONNX graph", Drawing.of(result, "onnx").html(), opened=True))
    parts.append(details("operators", operators_html(result)))
    return {"text/plain": f"{result!r}\n{result_text(result)}", "text/html": block("".join(parts))}


def operators_html(result: Any) -> str:
    """Captured operators with how each was lowered."""
    from onnx_lab.view.op_rows import op_rows

    rows = op_rows(result.captured, result.model, result.report)
    columns = ["op", "count", "how", "onnx", "modules", "source"]
    return table(columns, [[row[key] for key in columns] for row in rows[:ROWS_SHOWN]], total=len(rows))


def coverage_bundle(coverage: Any) -> dict[str, Any]:
    """Text and HTML of a coverage: missing operators first."""
    columns = ["supported", "op", "count", "how", "modules", "source", "reason", "nearest"]
    rows = [[_coverage_cell(row, key) for key in columns] for row in coverage.rows[:ROWS_SHOWN]]
    verdict = (
        "every operator can be lowered" if coverage.supported else f"{len(coverage.missing)} operators are missing"
    )
    title = f"{len(coverage.rows)} operators, opset {coverage.opset}: {verdict}"
    shown = table(columns, rows, status="supported", total=len(coverage.rows))
    head = f'<div style="font-weight:600;font-size:15px">{escape(title)}</div>'
    lines = [repr(coverage)]
    lines += [
        f"  missing {row['op']} x{row['count']} at {row['source'].where()}: {row['reason']}" for row in coverage.missing
    ]
    return {"text/plain": "\n".join(lines), "text/html": block(head + shown)}


def _coverage_cell(row: Mapping[str, Any], key: str) -> Any:
    if key == "supported":
        return "yes" if row["supported"] else "no"
    if key == "source":
        return row["source"].location
    if key == "modules":
        return module_text(row["modules"])
    return row[key]


def module_text(modules: Sequence[str]) -> str:
    """The first few module paths and how many more there are."""
    named = [module or "(root)" for module in modules]
    return ", ".join(named[:2]) + (f" and {len(named) - 2} more" if len(named) > 2 else "")


def diff_bundle(frame: Any) -> dict[str, Any]:
    """Text and HTML of a diff: the rows that differ in order, then the largest differences."""
    first = frame.attrs.get("first_divergent")
    order = frame["status"].isin(["mismatch", "nan", "shape", "dtype"])
    wrong, rest = frame[order], frame[~order].sort_values("max_abs", ascending=False)
    counts = ", ".join(f"{count} {name}" for name, count in frame["status"].value_counts().items() if count)
    verdict = f"first divergent call: {first}" if first else "no call differs"
    columns = ["status", "call", "op", "max_abs", "max_rel", "cosine", "module", "source", "shape", "reason"]
    import pandas as pd

    shown = pd.concat([wrong, rest])
    inner = f'<div style="font-weight:600;font-size:15px">{escape(verdict)}</div><div>{escape(counts)}</div>'
    inner += frame_html(shown, columns, status="status", limit=30)
    text = shown[columns[:-1]].head(15).to_string(index=False, max_colwidth=40)
    return {"text/plain": f"{verdict} ({counts})\n{text}", "text/html": block(inner)}
