"""State: frozen by default, or carried through inputs and outputs."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
import torch
from torch import nn

import onnx_lab
from tests.torchscript.stateful import STATEFUL, Cell, Counter, Growing, Outer

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.*deprecated:DeprecationWarning")


def script_of(module: type[nn.Module]) -> Any:
    return torch.jit.script(module().eval())


def session_of(result: onnx_lab.ExportResult) -> ort.InferenceSession:
    return ort.InferenceSession(result.model_proto().SerializeToString(), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize(("module", "shape"), STATEFUL, ids=lambda one: getattr(one, "__name__", None))
def test_frozen_is_one_call_from_the_current_state(module: type[nn.Module], shape: tuple[int, ...]) -> None:
    model = script_of(module)
    with torch.no_grad():
        model(torch.randn(shape))
    result = onnx_lab.export(model, (torch.randn(shape),))
    assert result.verify(more=[((torch.randn(shape),), {})]).ok
    assert any("frozen as they were before the call" in note for note in result.report.notes)
    assert result.initial_state == {}


@pytest.mark.parametrize(("module", "shape"), STATEFUL, ids=lambda one: getattr(one, "__name__", None))
def test_io_carries_the_state(module: type[nn.Module], shape: tuple[int, ...]) -> None:
    model = script_of(module)
    result = onnx_lab.export(model, (torch.randn(shape),), state="io")
    assert result.verify().ok
    session = session_of(result)
    state = result.initial_state
    assert state
    assert [given.name for given in session.get_inputs()] == ["x", *state]
    for _ in range(5):
        x = torch.randn(shape)
        made, *after = session.run(None, {"x": x.numpy(), **state})
        with torch.no_grad():
            expected = model(x)
        np.testing.assert_allclose(made, expected.numpy(), rtol=1e-5, atol=1e-6)
        state = dict(zip(state, after, strict=True))


def test_the_module_itself_is_left_as_it_was() -> None:
    model = script_of(Counter)
    before = (model.calls, model.scale, model.on, model.total.clone())
    for state in ("frozen", "io"):
        onnx_lab.export(model, (torch.randn(2, 3),), state=state).verify()
        assert (model.calls, model.scale, model.on) == before[:3]
        assert torch.equal(model.total, before[3])


def test_io_starts_from_the_state_at_the_export() -> None:
    model = script_of(Counter)
    model(torch.ones(2, 3))
    result = onnx_lab.export(model, (torch.ones(2, 3),), state="io")
    state = result.initial_state
    assert state["calls"] == 1
    assert state["scale"] == 0.75
    assert state["on"].dtype == np.bool_
    np.testing.assert_array_equal(state["total"], [2, 2, 2])
    names = [value.name for value in result.model.graph.outputs]
    assert names == ["output", *(f"{name}_out" for name in state)]


def test_empty_at_first_and_a_dynamic_batch() -> None:
    model = script_of(Growing)
    result = onnx_lab.export(model, (torch.randn(2, 5),), dynamic_shapes={"x": {0: "batch"}}, state="io")
    assert result.initial_state["context"].shape == (0, 2)
    session, state = session_of(result), result.initial_state
    for _ in range(3):
        x = torch.randn(4, 5)
        made, *after = session.run(None, {"x": x.numpy(), **state})
        np.testing.assert_allclose(made, model(x).numpy(), rtol=1e-5, atol=1e-6)
        state = dict(zip(state, after, strict=True))


def test_an_optional_state_has_a_flag() -> None:
    result = onnx_lab.export(script_of(Cell), (torch.randn(2, 3),), state="io")
    assert [name for name in result.initial_state if name.endswith("_present")] == ["state_present"]
    assert not result.initial_state["state_present"]


class Averaging(nn.Module):
    """A buffer only, which every capture knows."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.mean.mul_(0.5).add_(x.mean(0) * 0.5)
        return x - self.mean


@pytest.mark.parametrize("capture", ["export", "dynamo", "script", "trace"])
def test_buffers_in_every_capture(capture: str) -> None:
    model = Averaging().eval()
    result = onnx_lab.export(model, (torch.randn(2, 3),), capture=capture, state="io")
    assert list(result.initial_state) == ["mean"] or capture in ("export", "dynamo")
    assert len(result.initial_state) == 1
    session, state, eager = session_of(result), result.initial_state, copy.deepcopy(model)
    for _ in range(3):
        x = torch.randn(2, 3)
        made, after = session.run(None, {"x": x.numpy(), **state})
        np.testing.assert_allclose(made, eager(x).numpy(), rtol=1e-5, atol=1e-6)
        state = dict.fromkeys(state, after)
    assert result.verify().ok
    assert torch.equal(model.mean, torch.zeros(3))


def test_state_of_a_submodule_is_named_after_it() -> None:
    result = onnx_lab.export(script_of(Outer), (torch.randn(2),), state="io")
    assert list(result.initial_state) == ["inner_n"]
    assert result.initial_state["inner_n"].dtype == np.int64


def test_an_attribute_of_a_plain_module_is_told() -> None:
    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 1

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return x * self.calls

    model = Counts()
    result = onnx_lab.export(model, (torch.randn(2),), capture="export")
    assert result.verify().ok
    assert any("forward writes calls" in note for note in result.report.notes)
    assert model.calls == 1
    with pytest.raises(onnx_lab.CaptureError, match="calls") as caught:
        onnx_lab.export(model, (torch.randn(2),), capture="export", state="io")
    assert "capture='script'" in caught.value.hint
