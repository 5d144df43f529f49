"""The captured graph run by PyTorch gives what the model gives, and frees what it no longer needs."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch
from torch import nn

import onnx_lab
from onnx_lab.errors import VerificationError
from onnx_lab.program.graph import Call, CapturedGraph, GraphInput, Ref
from onnx_lab.program.op_key import OpKey
from onnx_lab.program.source import Source
from onnx_lab.program.spec import DType, TensorSpec
from onnx_lab.verify.reference import function_of, run_calls

F32 = TensorSpec("float32", (3,))


def graph(*calls: Call) -> CapturedGraph:
    return CapturedGraph("G", [GraphInput("x", F32)], [], {}, list(calls))


def call(name: str, key: str, *args: Any, **kwargs: Any) -> Call:
    return Call(name, OpKey(key), args, kwargs, F32, Source("/home/me/model.py", 41))


def test_every_kind_of_key_and_argument() -> None:
    x = torch.tensor([3.0, 1.0, 2.0])
    made = {one.name: value for one, value in run_calls(
        graph(
            call("size", "aten::sym_size.int", Ref("x"), 0),
            call("twice", "_operator::mul", Ref("size"), 2),
            call("both", "_operator::and", True, False),
            call("root", "math::sqrt", 16.0),
            call("most", "torch::sym_max", Ref("twice"), 4),
            call("pair", "aten::sort", Ref("x")),
            call("order", "_operator::getitem", Ref("pair"), 1),
            call("full", "aten::full", [Ref("size")], 1, dtype=DType("int32"), device="cpu", layout="torch.strided"),
            call("cat", "aten::cat", [Ref("x"), Ref("full")]),
        ),
        {"x": x},
    )}  # fmt: skip
    assert (made["twice"], made["both"], made["root"], made["most"]) == (6, False, 4.0, 6)
    assert made["order"].tolist() == [1, 2, 0]
    assert made["full"].dtype == torch.int32
    assert made["cat"].tolist() == [3, 1, 2, 1, 1, 1]


def test_values_are_dropped_after_their_last_use() -> None:
    chain = [call(f"c{i}", "aten::add.Scalar", Ref(f"c{i - 1}" if i else "x"), 1) for i in range(4)]
    alive: list[weakref.ref[torch.Tensor]] = []
    for _, value in run_calls(graph(*chain), {"x": torch.zeros(3)}):
        alive.append(weakref.ref(value))
        del value
        assert sum(one() is not None for one in alive) <= 2


def test_a_call_that_fails_is_named_with_its_line() -> None:
    broken = call("broken", "aten::mm", Ref("x"), Ref("x"))
    with pytest.raises(VerificationError, match=r"captured call broken \(aten::mm\)\n  at model.py:41"):
        list(run_calls(graph(broken), {"x": torch.zeros(3)}))
    with pytest.raises(VerificationError, match="no value for input x"):
        list(run_calls(graph(), {}))
    with pytest.raises(VerificationError, match="aten::nothing cannot be run"):
        function_of("aten::nothing")


class Flow(nn.Module):
    """Every control-flow operator, with an outer value read inside the bodies."""

    def forward(self, x: torch.Tensor) -> Any:
        from torch._higher_order_ops import map as map_
        from torch._higher_order_ops import scan, while_loop

        bias = x.sum()
        chosen = torch.cond(bias > 0, lambda v: v + 1, lambda v: v - 1, (x,))
        _, looped = while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * 2 + bias), (torch.tensor(0), x))
        total, rows = scan(lambda s, v: (s + v, s * v), torch.zeros(4), x)
        return chosen, looped, total, rows, map_(lambda v: v * 2 + bias, x)


def test_control_flow_equals_eager() -> None:
    x = torch.randn(3, 4)
    result = onnx_lab.export(Flow(), (x,))
    expected = Flow()(x)
    made = {one.name: value for one, value in run_calls(result.captured, {"x": x})}
    names = [output.value.name for output in result.captured.outputs]
    for name, value in zip(names, expected, strict=True):
        torch.testing.assert_close(made[name], value)


def test_the_module_is_left_as_it_was() -> None:
    model = nn.Sequential(nn.BatchNorm1d(3), nn.BatchNorm1d(3)).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    result = onnx_lab.export(model, (torch.randn(5, 3),), training="preserve")
    assert result.diff().attrs["first_divergent"] is None
    torch.testing.assert_close(dict(model.state_dict()), before, rtol=0, atol=0)
