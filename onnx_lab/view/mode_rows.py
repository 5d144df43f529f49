"""Submodules whose flag, or whose behaviour in the captured graph, is not that of the mode asked for."""

from __future__ import annotations

from typing import Any

from onnx_lab.program.graph import Call, CapturedGraph
from onnx_lab.program.report import Report

# Operators that behave otherwise in training: by name, the argument that says so (position, or keyword).
_TRAINING: dict[str, tuple[int, str]] = {
    "dropout": (2, "train"), "feature_dropout": (2, "train"), "alpha_dropout": (2, "train"),
    "feature_alpha_dropout": (2, "train"), "native_dropout": (2, "train"), "dropout_": (2, "train"),
    "batch_norm": (5, "training"), "native_batch_norm": (5, "training"), "rrelu": (3, "training"),
    "rrelu_with_noise": (4, "training"),
}  # fmt: skip
# These are other operators in evaluation, or none at all.
_ALWAYS = frozenset({"_native_batch_norm_legit", "bernoulli", "rand_like"})


def mode_rows(captured: CapturedGraph, report: Report) -> list[dict[str, Any]]:
    """One row for each submodule that differs: by its own flag, by what it does, or both."""
    rows: dict[str, dict[str, Any]] = {}
    for one in report.modes:
        why = f"its own flag says {one.flag}"
        rows[one.path] = _row(one.path, one.kind, one.asked, one.flag, one.captured, why, "")
    flags = {one.path: one.captured for one in report.modes}
    for call in captured.all_calls():
        effective = _effective(call)
        path = call.source.module_path
        if effective is None:
            continue
        asked = flags.get(path, report.training) if report.training == "preserve" else report.training
        if asked == "preserve" or effective == asked:
            continue
        why = f"{call.key} runs as in {'training' if effective == 'train' else 'evaluation'}"
        known = rows.get(path)
        if known is None:
            kind = call.source.module_type
            rows[path] = _row(path, kind, asked, "", effective, why, call.source.location)
        else:
            known |= {"effective": effective, "why": f"{known['why']}; {why}", "source": call.source.location}
    return list(rows.values())


def _row(path: str, kind: str, asked: str, flag: str, effective: str, why: str, source: str) -> dict[str, Any]:
    return {
        "module": path or "(root)", "type": kind, "asked": asked, "flag": flag, "effective": effective, "why": why,
        "source": source,
    }  # fmt: skip


def _effective(call: Call) -> str | None:
    """Whether a call runs as in training or as in evaluation; None when that is all the same to it."""
    name = call.key.name
    if name in _ALWAYS:
        return "train"
    known = _TRAINING.get(name)
    if known is None:
        return None
    position, keyword = known
    value = call.kwargs.get(keyword, call.args[position] if position < len(call.args) else False)
    return "train" if value else "eval"
