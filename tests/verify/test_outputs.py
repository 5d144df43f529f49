"""verify(): every output on every set of inputs, and the table and error that tell."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import onnx_lab
from onnx_lab.errors import MismatchError
from onnx_lab.verify.compare import compare
from onnx_lab.verify.outputs import OutputRow, VerifyResult


class Two(nn.Module):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"sum": x.sum(0), "sign": x.sign()}


def export(**options: Any) -> onnx_lab.ExportResult:
    return onnx_lab.export(Two(), (torch.randn(3, 4),), dynamic_shapes={"x": {0: "n"}}, **options)


def test_several_sets_of_inputs() -> None:
    found = export().verify(more=[((torch.randn(7, 4),), {}), ((torch.full((2, 4), float("nan")),), {})])
    assert found.ok
    found.raise_on_mismatch()
    frame = found.frame()
    assert frame["output"].tolist() == ["sum", "sign"] * 3
    assert frame["shape"].tolist()[3] == "[7, 4]"
    assert set(frame["status"]) == {"match"}
    assert "all outputs match (3 sets of inputs" in repr(found)


def test_the_worst_output_is_named() -> None:
    def doubled(ctx: Any, x: Any) -> Any:
        return ctx.op.Mul(ctx.op.Sign(x), ctx.constant(2.0))

    found = export(lowerings={"aten::sign": doubled}).verify()
    assert not found.ok
    assert found.frame().set_index("output")["status"].to_dict() == {"sum": "match", "sign": "mismatch"}
    with pytest.raises(MismatchError, match=r"output sign differs from eager PyTorch \(mismatch\)") as caught:
        found.raise_on_mismatch()
    assert "eager has" in caught.value.seen
    assert "diff()" in caught.value.hint


def test_a_wrong_shape_is_the_worst() -> None:
    rows = [
        OutputRow(0, "far", "float32", (2,), compare(torch.zeros(2), torch.full((2,), 9e9))),
        OutputRow(0, "bent", "float32", (3,), compare(torch.zeros(2), torch.zeros(3))),
    ]
    found = VerifyResult(rows)
    assert found.max_abs == float("inf")
    with pytest.raises(MismatchError, match=r"output bent .*\(shape\), and 1 more") as caught:
        found.raise_on_mismatch()
    assert caught.value.seen == "shape [3], eager has [2]"
