"""Training and evaluation mode while capturing, by submodule."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from onnx_lab.errors import InputError

MODES = ("eval", "preserve", "train")


@contextmanager
def training_mode(model: torch.nn.Module, mode: str) -> Iterator[list[tuple[str, str]]]:
    """Put every submodule in ``mode``; each gets its own flag back on any exit.

    Yields:
        ``(path, class name)`` of the submodules that are in training mode inside.

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
        yield [(path, type(module).__name__) for path, module in model.named_modules() if module.training]
    finally:
        for module, flag in flags:
            module.training = flag
