"""capture="trace": what it keeps equals eager, what it freezes is told with its line and a way to keep it."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from torch import nn

import onnx_lab
from tests.torchscript import traced
from tests.torchscript.programs import PROGRAMS

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.*deprecated:DeprecationWarning")
ROWS: Any = {"x": {0: "rows"}}
# In each the line with the comment is what tracing freezes.
FREEZING = [traced.BranchOnData, traced.LoopOverSize, traced.NumberOfSize, traced.NumberOfData]


def frozen_line(module: type[nn.Module]) -> int:
    lines, first = inspect.getsourcelines(module)
    [at] = [index for index, line in enumerate(lines) if "  # " in line]
    return first + at


@pytest.mark.parametrize("module", FREEZING, ids=lambda one: one.__name__)
def test_what_is_frozen_has_its_line(module: type[nn.Module]) -> None:
    result = onnx_lab.export(module(), (torch.rand(3, 4),), dynamic_shapes=ROWS, capture="trace")
    frame = result.frozen()
    lines = set(frame["source"])
    assert f"traced.py:{frozen_line(module)}" in lines, frame.to_string()
    assert set(frame["keep"]) == {"script"}
    assert "frozen: " in result.summary()
    assert "frozen: " in str(result.report)
    assert result.verify().ok  # at the example itself


@pytest.mark.parametrize("module", FREEZING, ids=lambda one: one.__name__)
def test_the_capture_that_is_named_keeps_it(module: type[nn.Module]) -> None:
    result = onnx_lab.export(module(), (torch.rand(3, 4),), capture="script", dynamic_shapes=ROWS)
    found = result.verify(more=[((-torch.rand(5, 4),), {})])
    assert found.ok, repr(found)


def test_values_of_numpy_are_kept_by_none() -> None:
    x = torch.rand(3, 4)
    result = onnx_lab.export(traced.ArrayOfNumpy(), (x,), capture="trace")
    assert set(result.frozen()["source"]) == {f"traced.py:{frozen_line(traced.ArrayOfNumpy)}"}
    assert set(result.frozen()["keep"]) == {""}
    with pytest.raises(onnx_lab.CaptureError, match="cannot be dynamic") as caught:
        onnx_lab.export(traced.ArrayOfNumpy(), (x,), capture="trace", dynamic_shapes=ROWS)
    assert "tracing froze" in caught.value.hint
    assert "traced.py:" in caught.value.hint


def test_nothing_is_frozen_where_nothing_is() -> None:
    kwargs = {"mask": torch.rand(3)}
    result = onnx_lab.export(
        traced.Plain().eval(), (torch.randn(3, 4),), kwargs=kwargs, capture="trace",
        dynamic_shapes={"x": {0: "rows"}, "mask": {0: "rows"}},
    )  # fmt: skip
    assert result.frozen().empty, result.frozen().to_string()
    found = result.verify(more=[((torch.randn(5, 4),), {"mask": torch.rand(5)})])
    assert found.ok, repr(found)
    assert [value.name for value in result.model.graph.outputs] == ["y", "z", "pair_0", "pair_1"]
    assert [value.name for value in result.model.graph.inputs] == ["x", "mask"]


def test_a_check_freezes_nothing() -> None:
    result = onnx_lab.export(traced.Checked(), (torch.rand(3, 4),), dynamic_shapes=ROWS, capture="trace")
    assert result.frozen().empty, result.frozen().to_string()


def test_another_value_of_a_plain_argument_is_refused() -> None:
    result = onnx_lab.export(traced.Plain().eval(), (torch.randn(3, 4), 2.5), capture="trace")
    with pytest.raises(onnx_lab.InputError, match=r"scale=3\.0"):
        result.verify((torch.randn(3, 4), 3.0))


@pytest.mark.parametrize(
    "name", ["Recurrent", "Convolutions", "Transformer", "StaticLoops", "ListMethods", "MaskAndNonzero"]
)
def test_layers_traced(name: str) -> None:
    one = next(one for one in PROGRAMS if one.module.__name__ == name)
    result = onnx_lab.export(one.module().eval(), one.inputs, dynamic_shapes=one.dynamic, capture="trace")
    found = result.verify(more=[(inputs, {}) for inputs in one.more])
    assert found.ok, repr(found)


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_a_traced_module_is_taken_as_it_is() -> None:
    x = torch.randn(3, 4)
    made = torch.jit.trace(nn.Sequential(nn.Linear(4, 3), nn.Tanh()), (x,))
    for capture in ("auto", "script", "trace"):
        result = onnx_lab.export(made, (x,), capture=capture)
        assert result.verify().ok


class ScriptedInside(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.jit.script(traced.LoopOverSize())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) * 2


def test_a_scripted_part_in_a_traced_model_keeps_its_loop() -> None:
    result = onnx_lab.export(ScriptedInside(), (torch.rand(3, 4),), dynamic_shapes=ROWS, capture="trace")
    assert result.frozen().empty, result.frozen().to_string()
    assert result.verify(more=[((torch.rand(6, 4),), {})]).ok


class TracedInside(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.jit.trace(nn.Linear(4, 4), (torch.rand(2, 4),))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool(x.sum() > 0):
            return self.inner(x)
        return x


def test_a_traced_part_in_a_scripted_model() -> None:
    result = onnx_lab.export(TracedInside(), (torch.rand(3, 4),), dynamic_shapes=ROWS, capture="script")
    assert result.verify(more=[((-torch.rand(6, 4),), {})]).ok


def test_the_model_and_the_random_numbers_are_left_alone() -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.BatchNorm1d(4)).train()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    random = torch.get_rng_state()
    onnx_lab.export(module, (torch.randn(3, 4, generator=torch.Generator()),), capture="trace", training="train")
    assert torch.equal(random, torch.get_rng_state())
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    assert module.training


def test_an_error_of_the_model_names_its_line() -> None:
    class Broken(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ torch.ones(7)

    with pytest.raises(onnx_lab.CaptureError, match="cannot be traced") as caught:
        onnx_lab.export(Broken(), (torch.rand(3, 4),), capture="trace")
    assert caught.value.source is not None
    assert caught.value.source.location.startswith("test_trace.py:")
