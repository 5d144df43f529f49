"""Traced programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from onnx_lab.capture.torchscript.front_end import quiet_deprecations


def traced(model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], notes: list[str]) -> Any:
    """``torch.jit.trace`` of one call."""
    with quiet_deprecations(notes), torch.no_grad():
        if kwargs:
            return torch.jit.trace(model, example_kwarg_inputs=dict(kwargs), check_trace=False)
        return torch.jit.trace(model, tuple(args), check_trace=False)
