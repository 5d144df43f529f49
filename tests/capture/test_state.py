"""State that forward writes: buffers, statistics, attributes; the user's model and inputs stay as they were."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import onnx_lab
from onnx_lab.errors import CaptureError


class Statistics(nn.Module):
    """The running statistics are results of their own."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: torch.Tensor) -> Any:
        made = self.norm(x)
        return made, self.norm.running_mean, self.norm.running_var.clone(), self.norm.num_batches_tracked


NORMS = {
    "batch": lambda: nn.BatchNorm1d(3),
    "batch without weights": lambda: nn.BatchNorm1d(3, affine=False, momentum=0.3),
    "instance": lambda: nn.InstanceNorm1d(3, track_running_stats=True),
}


@pytest.mark.parametrize("capture", ["export", "dynamo"])
@pytest.mark.parametrize("norm", NORMS)
def test_running_statistics_are_those_after_the_call(norm: str, capture: str) -> None:
    model = Statistics(NORMS[norm]()).train()
    x = torch.randn(4, 3, 5) * 3 + 1
    result = onnx_lab.export(
        model, (x,), training="train", capture=capture, dynamic_shapes={"x": {0: "batch", 2: "length"}}
    )
    assert result.verify(more=[((torch.randn(2, 3, 7),), {})]).ok
    assert torch.equal(model.norm.running_mean, torch.zeros(3)), "the model's own statistics are untouched"


class Tied(nn.Module):
    """One memory under three names, one of them a part of it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("whole", torch.zeros(4))
        self.again = self.whole
        self.register_buffer("part", self.whole[1:3])

    def forward(self, x: torch.Tensor) -> Any:
        self.whole += 1
        self.again.mul_(2)
        before = self.part * 3
        self.part.add_(7)
        return x + self.whole, before, self.whole, self.again.clone()


@pytest.mark.parametrize("capture", ["export", "dynamo"])
def test_buffers_in_one_memory_are_written_together(capture: str) -> None:
    model = Tied()
    assert onnx_lab.export(model, (torch.randn(1, 4),), capture=capture).verify().ok
    assert torch.equal(model.whole, torch.zeros(4))


class Recording(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls, self.seen, self.table = 0, [1], {"a": 1}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.seen.append(2)
        self.table["b"] = 2
        self.last = x * 2
        return self.last + 1


@pytest.mark.parametrize("capture", ["export", "dynamo"])
def test_attributes_are_what_they_were(capture: str) -> None:
    model = Recording()
    onnx_lab.export(model, (torch.randn(2),), capture=capture).verify().raise_on_mismatch()
    assert (model.calls, model.seen, model.table) == (0, [1], {"a": 1})
    assert not hasattr(model, "last")


class Hooked(nn.Module):
    """Sets a hook at its first call, and a flag that tells so."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.hooked = nn.Linear(2, 2), False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.hooked:
            self.inner.register_forward_hook(lambda module, args, made: made * 2)
            self.hooked = True
        return self.inner(x)


def test_hooks_set_while_capturing_are_set_once() -> None:
    model = Hooked()
    onnx_lab.export(model, (torch.randn(2, 2),), capture="export").verify().raise_on_mismatch()
    assert not model.hooked
    assert not model.inner._forward_hooks


def test_a_failed_export_leaves_no_marks_on_the_inputs() -> None:
    model, x = nn.Linear(3, 2), torch.randn(2, 3)
    with pytest.raises(CaptureError, match="constant"):
        onnx_lab.export(model, (x,), dynamic_shapes=({1: "columns"},))
    assert not vars(x)
    assert onnx_lab.export(model, (x,)).verify().ok


class Autocast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(3, 4), nn.LayerNorm(4)

    def forward(self, x: torch.Tensor) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.linear(x)
            with torch.autocast("cpu", enabled=False):
                z = self.linear(x)
            return y, self.norm(y), y @ y.T, torch.cat([y, x], -1), z


def test_autocast_converts_operands() -> None:
    model, x = Autocast(), torch.randn(2, 3)
    result = onnx_lab.export(model, (x,), capture="export")
    rows = result.verify(rtol=2e-2, atol=2e-2).rows
    assert [row.comparison.ok for row in rows] == [True] * 5
    assert [str(row.dtype) for row in rows] == ["bfloat16", "bfloat16", "bfloat16", "float32", "float32"]


def test_autocast_that_a_capture_loses_is_refused() -> None:
    with pytest.raises(CaptureError, match=r"float32 under torch\.autocast"):
        onnx_lab.export(Autocast(), (torch.randn(2, 3),), capture="dynamo")
