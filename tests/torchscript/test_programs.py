"""Every scripted program against eager PyTorch, at the example's sizes and at others."""

from __future__ import annotations

import io
import warnings

import pytest
import torch

import onnx_lab
from tests.torchscript.programs import PROGRAMS, Program

# torch says so of everything in torch.jit; onnx_lab says it once, in a note.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.*deprecated:DeprecationWarning")


def scripted(one: Program) -> torch.jit.ScriptModule:
    return torch.jit.script(one.module().eval())


@pytest.mark.parametrize("one", PROGRAMS, ids=lambda one: one.module.__name__)
def test_equals_eager(one: Program) -> None:
    result = onnx_lab.export(scripted(one), one.inputs, dynamic_shapes=one.dynamic, capture="script")
    found = result.verify(more=[(inputs, {}) for inputs in one.more])
    assert found.ok, repr(found)
    assert result.captured.front_end == "script"


@pytest.mark.parametrize("one", PROGRAMS, ids=lambda one: one.module.__name__)
def test_a_saved_program_is_the_same(one: Program) -> None:
    stream = io.BytesIO()
    torch.jit.save(scripted(one), stream)
    stream.seek(0)
    result = onnx_lab.export(torch.jit.load(stream), one.inputs, dynamic_shapes=one.dynamic)
    found = result.verify(more=[(inputs, {}) for inputs in one.more])
    assert found.ok, repr(found)


@pytest.mark.parametrize("one", PROGRAMS, ids=lambda one: one.module.__name__)
def test_every_value_inside_bodies_agrees(one: Program) -> None:
    result = onnx_lab.export(scripted(one), one.inputs, dynamic_shapes=one.dynamic)
    frame = result.diff()
    assert frame.attrs["first_divergent"] is None
    assert frame["call"].tolist() == [call.name for call in result.captured.all_calls()]
    silent = frame[frame["status"] == "not compared"]
    reasons = ("several results", "no turn of its branch", "makes no tensor")
    assert silent["reason"].str.startswith(reasons).all(), silent[["call", "op", "reason"]]


def test_a_module_is_scripted_for_the_user() -> None:
    one = next(one for one in PROGRAMS if one.module.__name__ == "LoopOverRows")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = onnx_lab.export(one.module(), one.inputs, dynamic_shapes=one.dynamic, capture="script")
    assert not caught
    assert sum("torch.jit is deprecated" in note for note in result.report.notes) == 1
    assert result.verify(more=[(inputs, {}) for inputs in one.more]).ok


def test_a_function_is_taken() -> None:
    def scale(x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
        return x * by

    result = onnx_lab.export(torch.jit.script(scale), (torch.ones(2),))
    assert result.captured.name == "scale"
    assert result.verify().ok


def test_calls_know_their_line_and_module() -> None:
    one = next(one for one in PROGRAMS if one.module.__name__ == "CellOverTime")
    result = onnx_lab.export(scripted(one), one.inputs, dynamic_shapes=one.dynamic)
    inner = [call for call in result.captured.all_calls() if call.source.module_path == "cell"]
    assert inner
    assert all(call.source.module_type == "LSTMCell" for call in inner)
    assert all(call.source.location.startswith("programs.py:") for call in result.captured.all_calls())


def test_the_drawing_holds_nested_bodies() -> None:
    one = next(one for one in PROGRAMS if one.module.__name__ == "NestedLoops")
    result = onnx_lab.export(scripted(one), one.inputs, dynamic_shapes=one.dynamic)
    for kind in ("onnx", "fx"):
        text = result.graph(kind, depth=9).dot()
        assert "Loop" in text if kind == "onnx" else "loop" in text
    assert {"script::loop", "higher_order::cond"} <= set(result.ops()["op"])
