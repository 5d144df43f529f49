"""Inputs, outputs and dynamic shapes as users write them; bad input is told before anything runs."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import nn

import onnx_lab


class Add(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor | None = None, scale: float = 2.0) -> torch.Tensor:
        return x * scale if y is None else x * scale + y


class Nested(nn.Module):
    def forward(self, parts: list[torch.Tensor], more: dict[str, torch.Tensor]) -> dict[str, Any]:
        return {"sum": parts[0] + parts[1], "pair": (more["a"] * 2, None)}


def names(result: onnx_lab.ExportResult) -> tuple[list[Any], list[Any]]:
    graph = result.model.graph
    return [value.name for value in graph.inputs], [value.name for value in graph.outputs]


def dims(result: onnx_lab.ExportResult, index: int = 0) -> list[Any]:
    return [getattr(dim, "value", dim) for dim in result.model.graph.inputs[index].shape]


def test_names_follow_parameters_keys_and_positions() -> None:
    one = torch.ones(2)
    result = onnx_lab.export(Nested(), ([one, one], {"a": one}))
    assert names(result) == (["parts_0", "parts_1", "more_a"], ["sum", "pair_0"])


def test_names_asked_for_are_written() -> None:
    result = onnx_lab.export(Add(), torch.ones(2, 3), input_names=["image"], output_names=["score"])
    assert names(result) == (["image"], ["score"])


def test_keywords_out_of_order_and_skipped_defaults() -> None:
    x = torch.randn(3)
    result = onnx_lab.export(Add(), kwargs={"y": x, "x": x})
    assert names(result)[0] == ["x", "y"]
    assert result.verify(kwargs={"y": x + 1, "x": x * 2}).ok


@dataclasses.dataclass
class Pair:
    left: torch.Tensor
    right: torch.Tensor


def test_dataclasses_in_and_out() -> None:
    class Swap(nn.Module):
        def forward(self, pair: Pair) -> Pair:
            return Pair(pair.right + 1, pair.left)

    result = onnx_lab.export(Swap(), (Pair(torch.ones(2), torch.zeros(2)),))
    assert names(result) == (["pair_left", "pair_right"], ["left", "right"])
    assert result.verify().ok


@pytest.mark.parametrize(
    "shapes",
    [({0: "batch"},), {"x": {0: "batch"}}, {"x": ("batch", None)}, {"x": {0: torch.export.Dim("batch", max=64)}}],
    ids=["tuple", "dict", "per axis", "Dim"],
)
def test_forms_of_dynamic_shapes(shapes: Any) -> None:
    result = onnx_lab.export(Add(), (torch.randn(2, 3),), dynamic_shapes=shapes)
    assert dims(result) == ["batch", 3]
    assert result.verify((torch.randn(5, 3),)).ok


def test_dynamic_axes_are_translated() -> None:
    result = onnx_lab.export(Add(), (torch.randn(2, 3),), dynamic_axes={"x": {0: "batch"}})
    assert dims(result) == ["batch", 3]


def test_an_example_batch_of_one_stays_dynamic() -> None:
    result = onnx_lab.export(nn.Linear(3, 2), (torch.randn(1, 3),), dynamic_shapes=({0: "batch"},))
    assert dims(result) == ["batch", 3]
    assert result.verify((torch.randn(4, 3),)).ok


class Limit(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] > 8:
            x = x[:, :8]
        return x.sum(1)


class Table(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.randn(32, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.rows[: x.shape[1]]


def test_a_branch_decided_by_a_size_is_an_error_that_names_the_line() -> None:
    with pytest.raises(onnx_lab.CaptureError, match=r"t <= 8") as caught:
        onnx_lab.export(Limit(), (torch.randn(2, 5, 3),), dynamic_shapes=({1: "t"},))
    assert caught.value.source is not None
    assert caught.value.source.location.startswith("test_inputs.py:")


def test_room_that_an_operator_has_is_only_a_note() -> None:
    result = onnx_lab.export(Table(), (torch.randn(2, 5, 4),), dynamic_shapes=({1: "t"},))
    assert any("t <= 32" in note for note in result.report.notes)
    assert result.verify((torch.randn(2, 9, 4),)).ok


def test_a_frozen_axis_is_an_error() -> None:
    with pytest.raises(onnx_lab.CaptureError, match="specialize"):
        onnx_lab.export(nn.Linear(3, 2), (torch.randn(2, 3),), dynamic_shapes=({1: "width"},))


class Branch(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x * 2
        return x - 10


def test_a_data_dependent_branch_names_the_line_and_a_way_out() -> None:
    with pytest.raises(onnx_lab.CaptureError, match="data-dependent") as caught:
        onnx_lab.export(Branch(), (torch.ones(2),))
    assert "torch.cond" in caught.value.hint
    assert len(caught.value.report.tries) == 2


BAD = [
    ({"model": 3}, "no torch.nn.Module"),
    ({"args": (torch.ones(2),) * 9}, "does not take these inputs"),
    ({"capture": "expot"}, "not known"),
    ({"opset_version": 99}, "cannot be written"),
    ({"opset_version": 9}, "cannot be written"),
    ({"training": "evl"}, "not known"),
    ({"dynamic_shapes": {"z": {0: "b"}}}, "no input called 'z'"),
    ({"dynamic_shapes": ({5: "b"},)}, "no axis 5"),
    ({"input_names": ["a", "b"]}, "2 input_names for 1"),
    ({"opset": 18}, "has no option opset"),
]


@pytest.mark.parametrize(("change", "text"), BAD, ids=[str(next(iter(change.items()))[0]) for change, _ in BAD])
def test_bad_input_is_told_at_once(change: dict[str, Any], text: str) -> None:
    call: dict[str, Any] = {"model": Add(), "args": (torch.ones(2, 3),)} | change
    with pytest.raises(onnx_lab.InputError, match=text) as caught:
        onnx_lab.export(call.pop("model"), call.pop("args"), **call)
    assert caught.value.hint


def test_the_model_keeps_its_modes_and_buffers() -> None:
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout())
    model[0].eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    onnx_lab.export(model, (torch.randn(4, 3),))
    assert (model.training, model[0].training, model[1].training) == (True, False, True)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_all_missing_operators_are_told_together() -> None:
    class Missing(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return torch.nextafter(x, x), torch.special.airy_ai(x), torch.special.airy_ai(x + 1)

    with pytest.raises(onnx_lab.UnsupportedOperatorsError) as caught:
        onnx_lab.export(Missing(), (torch.ones(2),))
    found = {row["op"]: row["count"] for row in caught.value.operators}
    assert found == {"aten::nextafter": 1, "aten::special_airy_ai": 2}
    assert onnx_lab.coverage(Missing(), (torch.ones(2),)).supported is False


def test_a_lowering_of_the_users_own_comes_first() -> None:
    def twice(ctx: Any, x: Any) -> Any:
        return ctx.op.Add(x, x)

    result = onnx_lab.export(nn.ReLU(), (torch.ones(2),), lowerings={"aten::relu": twice})
    assert [node.op_type for node in result.model.graph] == ["Add"]


@pytest.mark.parametrize("opset", range(18, 29))
def test_every_opset_is_honoured_and_runs(opset: int) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, activation="gelu").eval()
    result = onnx_lab.export(layer, (torch.randn(2, 5, 8),), dynamic_shapes=({0: "b", 1: "t"},), opset_version=opset)
    assert result.opset == opset
    assert result.verify((torch.randn(3, 7, 8),)).ok


@pytest.mark.parametrize("strategy", ["export", "dynamo"])
def test_front_ends_agree(strategy: str) -> None:
    model = nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True).eval()
    result = onnx_lab.export(model, (torch.randn(2, 5, 3),), dynamic_shapes=({0: "b", 1: "t"},), capture=strategy)
    assert result.verify((torch.randn(3, 8, 3),)).ok
    assert [node.op_type for node in result.model.graph].count("LSTM") == 2


class Refuses(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] > 16:
            raise ValueError("at most 16 steps")
        assert x.shape[1] <= 12
        return x.sum(1)


def test_a_branch_that_only_raises_is_a_note_and_no_error() -> None:
    result = onnx_lab.export(Refuses(), (torch.randn(2, 5, 4),), dynamic_shapes=({1: "t"},))
    assert any("t <= 12" in note and "raises an error otherwise" in note for note in result.report.notes)
    assert result.verify((torch.randn(2, 9, 4),)).ok


class StandIns(nn.Module):
    def forward(self, x: torch.Tensor, classes: torch.Tensor, start: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            torch.cov(x),
            torch.corrcoef(x),
            torch.cov(x, fweights=classes[:6], correction=0),
            nn.functional.one_hot(classes),
            nn.functional.gaussian_nll_loss(x, x * 0.5, torch.ones_like(x), full=True),
            torch.combinations(classes[:4], 3),
            x.narrow(1, start, 2),
        )


def test_functions_that_ask_tensors_for_numbers_have_stand_ins() -> None:
    before = (torch.cov, nn.functional.one_hot, torch.Tensor.narrow)
    given = (torch.randn(3, 6), torch.tensor([2, 0, 1, 3, 1, 1, 2]), torch.tensor(1))
    result = onnx_lab.export(StandIns(), given)
    other = (torch.randn(3, 6), torch.tensor([2, 0, 5, 3, 1, 1, 2]), torch.tensor(-3))
    assert result.verify(more=[(other, {})]).ok
    assert before == (torch.cov, nn.functional.one_hot, torch.Tensor.narrow)


class Decides(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.sum() > 0 else x - 1


def test_a_failed_capture_says_nothing_but_its_error(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(onnx_lab.CaptureError) as caught:
        onnx_lab.export(Decides(), (torch.ones(3),))
    with pytest.raises(onnx_lab.CaptureError):
        onnx_lab.export(nn.Linear(3, 2), (torch.ones(2, 3),), dynamic_shapes=({1: "width"},))
    said = capfd.readouterr()
    assert said.out + said.err == ""
    assert caught.value.source is not None
    assert len(str(caught.value).splitlines()) == 4


class Loops(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for step in range(x.shape[0]):
            x = x + step
        return x


def test_a_loop_over_a_dynamic_size_is_told_with_its_line() -> None:
    with pytest.raises(onnx_lab.CaptureError) as caught:
        onnx_lab.export(Loops(), (torch.ones(3, 2),), dynamic_shapes=({0: "n"},))
    assert caught.value.source is not None
    assert caught.value.source.code == "for step in range(x.shape[0]):"
    assert "axis 0 of x is always 3 (export and dynamo)" in str(caught.value)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"input_names": ["q"], "output_names": ["q"]}, "an input and an output would both be called q"),
        ({"output_names": ["x"]}, "an input and an output would both be called x"),
        ({"input_names": [""]}, "input_names has '', which is no name"),
    ],
    ids=str,
)
def test_names_that_make_no_model_are_refused(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(onnx_lab.InputError, match=words):
        onnx_lab.export(Add(), (torch.ones(2),), **asked)


def test_a_sparse_input_is_refused() -> None:
    with pytest.raises(onnx_lab.InputError, match="x is a sparse_coo tensor"):
        onnx_lab.export(Add(), (torch.eye(2).to_sparse(),))
