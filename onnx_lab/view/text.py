"""Plain text forms: what a terminal, a log or a doctest shows."""

from __future__ import annotations

from collections import Counter
from typing import Any

from onnx_lab.view.box_graph import BoxGraph
from onnx_lab.view.folding import Module, Path


def tree_text(graph: BoxGraph, tree: dict[Path, Module], limit: int = 40) -> str:
    """Modules as an indented tree, each with its class and the operators directly in it."""
    own: dict[Path, Counter[str]] = {}
    for box in graph.boxes.values():
        if box.kind == "op":
            own.setdefault(box.path, Counter())[box.title] += 1
    lines = [f"{graph.name}: {tree[()].total} nodes"]

    def walk(path: Path, depth: int) -> None:
        for child in tree[path].children:
            kind = graph.classes.get(child, "")
            inside = own.get(child, Counter())
            listed = ", ".join(f"{name} x{count}" if count > 1 else name for name, count in inside.most_common(6))
            more = " ..." if len(inside) > 6 else ""
            label = f"{child[-1]}{': ' + kind if kind else ''}"
            lines.append(f"{'  ' * depth}{label} ({tree[child].total})" + (f"  {listed}{more}" if listed else ""))
            walk(child, depth + 1)

    loose = own.get((), Counter())
    if loose:
        lines.append(
            "  " + ", ".join(f"{name} x{count}" if count > 1 else name for name, count in loose.most_common(10))
        )
    walk((), 1)
    if len(lines) > limit:
        lines = [*lines[: limit - 1], f"... {len(lines) - limit + 1} more modules"]
    return "\n".join(lines)


def facts(result: Any) -> dict[str, str]:
    """The summary of a result as label and text."""
    model, report = result.model, result.report
    weights = [value.const_value for value in model.graph.initializers.values() if value.const_value is not None]
    count, nbytes = sum(one.size for one in weights), sum(one.nbytes for one in weights)
    front_end = result.captured.front_end
    stages = ", ".join(f"{stage.name} {stage.seconds:.2f} s" for stage in report.stages)
    return {
        "model": result.captured.name,
        "opset": str(result.opset),
        "nodes": str(len(model.graph)),
        "weights": f"{count:,} values in {len(weights)} initializers, {size_text(nbytes)}",
        "captured by": front_end
        + (" (TorchDynamo)" if front_end == "dynamo" else " (torch.export)" if front_end == "export" else ""),
        "inputs": "; ".join(value_text(value) for value in model.graph.inputs),
        "outputs": "; ".join(value_text(value) for value in model.graph.outputs),
        "time": f"{report.seconds:.2f} s ({stages})",
    }


def result_text(result: Any) -> str:
    """A result in at most fifteen lines."""
    lines = [f"{label + ':':<13}{_cut(text)}" for label, text in facts(result).items()]
    notes = notes_of(result)
    lines += [f"{'note:':<13}{_cut(note)}" for note in notes[:5]]
    if len(notes) > 5:
        lines.append(f"... {len(notes) - 5} more notes in .report.notes")
    return "\n".join(lines)


def notes_of(result: Any) -> list[str]:
    """What a reader should know: training mode first, then the report's notes."""
    notes = [
        f"{path or 'the model'} ({kind}) was captured in training mode" for path, kind in result.report.training_modules
    ]
    notes += map(str, result.report.frozen)
    notes += list(result.report.notes)
    if result.report.decomposed:
        notes.append("decomposed: " + ", ".join(f"{key} x{n}" for key, n in result.report.decomposed.items()))
    return notes


def value_text(value: Any) -> str:
    """``x: float[batch, 3]``."""
    dtype = value.dtype.name.lower() if value.dtype is not None else "?"
    dims = "?" if value.shape is None else ", ".join(str(getattr(dim, "value", dim)) for dim in value.shape)
    return f"{value.name}: {dtype}[{dims}]"


def size_text(nbytes: int) -> str:
    return f"{nbytes / 1e6:.1f} MB" if nbytes >= 1e5 else f"{nbytes / 1e3:.1f} kB"


def _cut(text: str, width: int = 110) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."
