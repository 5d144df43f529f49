"""Training and evaluation mode while capturing, by submodule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from onnx_lab.errors import InputError
from onnx_lab.program.report import ModuleMode, Report

MODES = ("eval", "preserve", "train")


@contextmanager
def training_mode(model: torch.nn.Module, mode: str, report: Report | None = None) -> Iterator[None]:
    """Put every submodule in ``mode``; each gets its own flag back on any exit.

    ``report`` receives the submodules that are in training mode inside, and those whose own flag differs.

    Raises:
        InputError: an unknown mode.
    """
    if mode not in MODES:
        raise InputError(f"training={mode!r} is not known", hint=f"use one of {', '.join(MODES)}")
    flags = [(module, module.training) for module in model.modules()]
    try:
        if mode != "preserve":
            # Set flag by flag: a module's own train() may do more than that.
            for module, _ in flags:
                module.training = mode == "train"
        if report is not None:
            named = [(path, type(module).__name__, module.training) for path, module in model.named_modules()]
            by_module = dict(flags)
            note_modes(report, mode, named, [by_module[module] for module in model.modules()])
        yield
    finally:
        for module, flag in flags:
            module.training = flag


def note_modes(report: Report, mode: str, captured: Sequence[tuple[str, str, bool]], own: Sequence[bool]) -> None:
    """Write into the report which submodules are captured in training mode, and which have another flag.

    Args:
        captured: path, class name and flag of every submodule as it is captured; the whole model comes first.
        own: the flag that each has of itself.
    """
    report.training = mode
    report.training_modules = [(path, kind) for path, kind, flag in captured if flag]
    whole = captured[0][2] if captured else False
    wanted = whole if mode == "preserve" else mode == "train"
    report.modes = [
        ModuleMode(path, kind, mode, _word(flag), _word(now))
        for (path, kind, now), flag in zip(captured, own, strict=True)
        if flag != wanted
    ]


def _word(flag: bool) -> str:
    return "train" if flag else "eval"
