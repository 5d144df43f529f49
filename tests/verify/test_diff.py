"""diff(): one row per captured call, the first fault found, one session, the model left alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
import torch
from onnx_ir import tensor_adapters
from torch import nn

import onnx_lab
from onnx_lab.program.graph import Call, CapturedGraph, GraphInput, GraphOutput, Ref, Weight
from onnx_lab.program.op_key import OpKey
from onnx_lab.program.source import Source
from onnx_lab.program.spec import SymDim, TensorSpec
from onnx_lab.verify import diff as diff_module
from onnx_lab.verify.diff import COLUMNS, diff

SPEC = TensorSpec("float32", (SymDim("n"), 4))
WEIGHT = torch.randn(4, 4, generator=torch.Generator().manual_seed(0))


def handmade(epsilon: float = 1e-5) -> tuple[CapturedGraph, ir.Model]:
    """softmax(layer_norm(x @ w + 1)) on both sides; the ONNX side with its own epsilon."""
    steps = [
        ("mm", "aten::mm", (Ref("x"), Ref("w"))),
        ("add", "aten::add.Scalar", (Ref("mm"), 1)),
        ("norm", "aten::layer_norm", (Ref("add"), [4])),
        ("soft", "aten::softmax.int", (Ref("norm"), -1)),
    ]
    calls = [
        Call(name, OpKey(key), args, {}, SPEC, Source("/a/model.py", 7 + i))
        for i, (name, key, args) in enumerate(steps)
    ]
    weight = Weight("w", TensorSpec("float32", (4, 4)), WEIGHT, "parameter", "w")
    captured = CapturedGraph("G", [GraphInput("x", SPEC)], [GraphOutput("y", Ref("soft"))], {"w": weight}, calls)

    def value(name: str, content: torch.Tensor | None = None) -> ir.Value:
        tensor = None if content is None else tensor_adapters.TorchTensor(content, name=name)
        shape = ir.Shape(["n", 4]) if content is None else ir.Shape(content.shape)
        return ir.Value(name=name, shape=shape, type=ir.TensorType(ir.DataType.FLOAT), const_value=tensor)

    x, w, one, scale = value("x"), value("w", WEIGHT), value("one", torch.tensor(1.0)), value("scale", torch.ones(4))
    mm, add, norm, soft = value("mm"), value("add"), value("norm"), value("y")
    nodes = [
        ir.Node("", "MatMul", [x, w], outputs=[mm], name="mm"),
        ir.Node("", "Add", [mm, one], outputs=[add], name="add"),
        ir.Node("", "LayerNormalization", [add, scale], [ir.AttrFloat32("epsilon", epsilon)], outputs=[norm]),
        ir.Node("", "Softmax", [norm], outputs=[soft], name="soft"),
    ]  # fmt: skip
    graph = ir.Graph([x], [soft], nodes=nodes, initializers=[w, one, scale], opset_imports={"": 21}, name="g")
    return captured, ir.Model(graph, ir_version=10)


VALUES: dict[str, str | None] = {"mm": "mm", "add": "add", "norm": "norm", "soft": "y"}


def test_equal_sides() -> None:
    captured, model = handmade()
    before = ir.to_proto(model)
    frame = diff(captured, model, VALUES, {"x": torch.randn(3, 4)})
    assert list(frame.columns) == list(COLUMNS)
    assert frame["status"].tolist() == ["match"] * 4
    assert frame["call"].tolist() == ["mm", "add", "norm", "soft"]
    assert frame["source"].tolist() == [f"model.py:{line}" for line in range(7, 11)]
    assert frame["shape"].tolist() == ["[3, 4]"] * 4
    assert frame.attrs["first_divergent"] is None
    assert ir.to_proto(model) == before


def test_a_planted_fault_is_the_first_divergent_call() -> None:
    captured, model = handmade(epsilon=0.1)
    frame = diff(captured, model, VALUES, {"x": torch.randn(3, 4)}).set_index("call")
    assert frame.attrs["first_divergent"] == "norm"
    assert frame["status"].to_dict() == {"mm": "match", "add": "match", "norm": "mismatch", "soft": "mismatch"}
    worst = frame.loc["norm"]
    # The worst element is the one furthest beyond its allowance, not always the one with the largest difference.
    assert 0.01 < abs(worst["eager_worst"] - worst["onnx_worst"]) <= worst["max_abs"] * 1.0001


def test_groups_bound_what_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diff_module, "_CHUNK_BYTES", 4 * 3 * 4)
    runs: list[list[str]] = []
    run = diff_module.Session.run

    def recorded(self: Any, feeds: Any, outputs: Any = None) -> Any:
        runs.append(outputs)
        return run(self, feeds, outputs)

    monkeypatch.setattr(diff_module.Session, "run", recorded)
    captured, model = handmade()
    frame = diff(captured, model, VALUES, {"x": torch.randn(3, 4)})
    assert runs == [["mm"], ["add"], ["norm"], ["y"]]
    assert set(frame["status"]) == {"match"}


def test_a_constant_in_place_of_a_call_is_compared() -> None:
    captured, model = handmade()
    captured.calls.append(Call("eye", OpKey("aten::eye"), (4,), {}, TensorSpec("float32", (4, 4))))
    frame = diff(captured, model, {**VALUES, "eye": "w", "add": None}, {"x": torch.randn(3, 4)}).set_index("call")
    assert frame.loc["eye", "status"] == "mismatch"
    assert frame.loc["add", "status"] == "folded"
    assert frame.loc["add", "reason"]


class Branch(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        y = torch.cond(x.sum() > 0, lambda v: v.sin() + 1, lambda v: v.cos(), (x,))
        values, order = torch.sort(y * 2)
        return values, order, torch.fft.fft(x)


def test_every_captured_call_has_a_row() -> None:
    x = torch.arange(12.0).reshape(3, 4)
    result = onnx_lab.export(Branch(), (x,), dynamic_shapes={"x": {0: "n"}})
    frame = result.diff()
    assert frame["call"].tolist() == [call.name for call in result.captured.all_calls()]
    assert frame.attrs["first_divergent"] is None
    silent = frame[frame["status"].isin(["not compared", "folded"])]
    assert (silent["reason"] != "").all()
    by_op = frame.set_index("op")["status"]
    assert (by_op["aten::sin"], by_op["aten::cos"]) == ("match", "not compared")
    assert by_op["aten::fft_fft"] == "match"
    assert by_op["_operator::getitem"].tolist() == ["match"] * 3
    assert set(result.diff((torch.randn(5, 4),))["status"]) <= {"match", "not compared", "folded"}


def test_diff_of_a_lowering_with_a_fault_names_the_line() -> None:
    def slanted(ctx: Any, x: Any, *, approximate: str = "none") -> Any:
        return ctx.op.Gelu(x, approximate="tanh")

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 4))
    frame = onnx_lab.export(model, (3 * torch.randn(20, 4),), lowerings={"aten::gelu": slanted}).diff()
    assert frame.attrs["first_divergent"] == "gelu"
    row = frame.set_index("call").loc["gelu"]
    assert row["module"] == "1"
    assert row["status"] == "mismatch"
    assert np.isfinite(row["max_abs"])
