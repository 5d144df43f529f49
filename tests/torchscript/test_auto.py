"""Which capture is chosen, and what is said when none that keeps the model can take it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import onnx_lab
from tests.torchscript.traced import BranchOnData, LoopOverSize

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.*deprecated:DeprecationWarning")


def test_a_script_is_captured_as_one() -> None:
    result = onnx_lab.export(torch.jit.script(BranchOnData()), (torch.rand(3),))
    assert result.captured.front_end == "script"
    assert [one.strategy for one in result.report.tries] == ["script"]


def test_a_refused_branch_names_the_capture_that_takes_it() -> None:
    with pytest.raises(onnx_lab.CaptureError, match="data-dependent control flow") as caught:
        onnx_lab.export(BranchOnData(), (torch.rand(3),))
    assert caught.value.source is not None
    assert caught.value.source.location.startswith("traced.py:")
    assert caught.value.hint.startswith("capture='script' takes it as it is")


class Unscriptable(nn.Module):
    def forward(self, x):
        table = {"a": lambda v: v + 1}
        if x.sum() > 0:
            return table["a"](x)
        return x * 2


def test_where_script_does_not_take_it_the_frozen_lines_are_named() -> None:
    with pytest.raises(onnx_lab.CaptureError) as caught:
        onnx_lab.export(Unscriptable(), (torch.rand(3),))
    assert "capture='script' does not take it at test_auto.py" in caught.value.hint
    assert "capture='trace' takes it, but freezes test_auto.py" in caught.value.hint


def test_a_loop_over_a_dynamic_size() -> None:
    with pytest.raises(onnx_lab.CaptureError) as caught:
        onnx_lab.export(LoopOverSize(), (torch.rand(3, 2),), dynamic_shapes={"x": {0: "rows"}})
    assert "capture='script' takes it as it is" in caught.value.hint


def test_never_a_trace_in_silence() -> None:
    with pytest.raises(onnx_lab.CaptureError) as caught:
        onnx_lab.export(BranchOnData(), (torch.rand(3),), capture="export")
    assert [one.strategy for one in caught.value.report.tries] == ["export"]
