"""A refusal of ONNX Runtime names the node, the kernel and the user's line."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from torch import nn

import onnx_lab
from onnx_lab.errors import RuntimeRejectedError, VerificationError
from onnx_lab.verify.compare import compare
from onnx_lab.verify.runtime import Session
from tests.saving.models import mixed_weights, weights_model


class Gelu(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return torch.nn.functional.gelu(y)


def exported(lowering: Any) -> onnx_lab.ExportResult:
    return onnx_lab.export(Gelu(), (torch.randn(2, 3),), lowerings={"aten::gelu": lowering})


def unknown_kernel(ctx: Any, x: ir.Value, *, approximate: str = "none") -> Any:
    made = ctx.op.Gelu(x)
    made.producer().domain = "nowhere"
    made.producer().op_type = "Magic"
    return made


def wrong_shape(ctx: Any, x: ir.Value, *, approximate: str = "none") -> Any:
    return ctx.op.Reshape(x, ctx.op.Add(ctx.op.Shape(x), ctx.constant([1])))


def assert_traced(error: RuntimeRejectedError, op_type: str) -> None:
    text = str(error)
    assert f"{op_type}-" in text
    assert error.op == "aten::gelu"
    assert error.source is not None
    assert error.source.location.startswith("test_runtime.py:")
    assert error.source.code == "return torch.nn.functional.gelu(y)"
    assert error.seen
    assert error.hint


def test_a_refused_model() -> None:
    with pytest.raises(RuntimeRejectedError, match="refuses the model at node") as caught:
        exported(unknown_kernel).verify()
    assert_traced(caught.value, "nowhere::Magic")


def test_a_kernel_that_fails() -> None:
    with pytest.raises(RuntimeRejectedError, match="fails while running the model at node") as caught:
        exported(wrong_shape).verify()
    assert_traced(caught.value, "Reshape")


def test_a_definition_without_kernels_leads_to_its_operator() -> None:
    def standardized(ctx, x, *, approximate="none"):
        return ctx.op.MeanVarianceNormalization(x)

    name = r"at node output \(MeanVarianceNormalization-\d+ of DOUBLE\)"
    with pytest.raises(RuntimeRejectedError, match=name) as caught:
        onnx_lab.export(
            Gelu(), (torch.randn(2, 3, 2, 2).double(),), verify=True, lowerings={"aten::gelu": standardized}
        )
    assert "no CPU kernel" in caught.value.hint


def test_wrong_inputs_are_not_blamed_on_the_model() -> None:
    session = Session(onnx_lab.export(Gelu(), (torch.randn(2, 3),)).model)
    for given, hint in [
        (torch.randn(2, 4), "export with dynamic_shapes"),
        (torch.randn(2), "rank"),
        (torch.randn(2, 3).double(), "dtypes"),
    ]:
        with pytest.raises(RuntimeRejectedError, match="does not take these inputs") as caught:
            session.run({"x": given})
        assert hint in caught.value.hint
        assert caught.value.source is None
    with pytest.raises(VerificationError, match="no value for input x"):
        session.run({})


@pytest.mark.parametrize("optimize", [True, False])
def test_weights_of_every_kind_reach_the_runtime(optimize: bool) -> None:
    weights = {name: one for name, one in mixed_weights().items() if name not in ("int4", "float8")}
    session = Session(weights_model(weights), optimize=optimize)
    found = session.run({"x": np.ones(2, np.float32)})
    for weight, value in zip(weights.values(), found[1:], strict=True):
        assert compare(weight, value, rtol=0, atol=0).ok


REFUSED = {
    "type": "g (float[2] x) => (float[2] y) { [n] i = Cast<to=7>(x)  [bad] y = Add(x, i) }",
    "kernel": "g (uint16[2] x) => (uint16[2] y) { [n] z = Identity(x)  [bad] y = Relu(z) }",
    "shape": "g (float[2,3] x) => (float[2,2] y) { [n] z = Neg(x)  [bad] y = MatMul(x, z) }",
    "attribute": "g (float[2] x) => (float[2] y) { [n] z = Neg(x)  [bad] y = Softmax<axes=3>(z) }",
    "few inputs": "g (float[2] x) => (float[2] y) { [n] z = Neg(x)  [bad] y = Add(z) }",
    "running": "g (float[2] x) => (float[n] y) { [n] k = Shape(x)  [bad] y = Gather(x, k) }",
    "inside": """g (float[2] x) => (float[n] y) <bool c = {1}> { [n] y = If(c) <
        then_branch = t () => (float[1] p) { [m] k = Shape(x)  [bad] p = Gather(x, k) },
        else_branch = e () => (float[2] q) { [o] q = Neg(x) }> }""",
}


@pytest.mark.parametrize("kind", REFUSED)
def test_every_kind_of_message_leads_to_its_node(kind: str) -> None:
    model = ir.from_proto(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {REFUSED[kind]}'))
    with pytest.raises(RuntimeRejectedError, match=r"at node bad \("):
        Session(model, optimize=False).run({"x": np.ones(2, np.float32)})
