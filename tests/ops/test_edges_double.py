"""Functions in double precision, for which the runtime has float kernels only: twelve digits, ends included."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

import onnx_lab
from tests.ops.harness import Function, check

WHOLE_LINE = torch.cat(
    [torch.linspace(-6, 6, 97), torch.tensor([0.0, 1e-9, -1e-5, 1e-3, 40.0, -40.0, 700.0, -700.0])]
).double()
ENDS = torch.tensor([float("inf"), float("-inf"), float("nan")], dtype=torch.float64)
UNIT = torch.cat([torch.linspace(-1, 1, 41).double(), torch.tensor([1e-9, -1e-12, 0.999999999], dtype=torch.float64)])
FUNCTIONS = {
    "sinh": torch.sinh, "cosh": torch.cosh, "asinh": torch.asinh, "atan": torch.atan, "erf": torch.erf,
    "softplus": functional.softplus, "elu": lambda x: functional.elu(x, 0.7), "selu": functional.selu,
    "celu": lambda x: functional.celu(x, 1.3), "leaky_relu": lambda x: functional.leaky_relu(x, 0.3),
    "hardsigmoid": functional.hardsigmoid, "hardswish": functional.hardswish, "mish": functional.mish,
    "softsign": functional.softsign, "silu": functional.silu,
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_on_the_whole_line(name: str) -> None:
    values = WHOLE_LINE if name in ("hardswish", "mish", "silu", "softsign") else torch.cat([WHOLE_LINE, ENDS])
    # Eager's own celu and mish lose digits near zero, the runtime's Sigmoid in the far tail.
    check(FUNCTIONS[name], values, rtol=1e-12, atol=1e-15 if name in ("celu", "mish", "silu") else 1e-300)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu(approximate: str) -> None:
    # In the far tail eager itself loses digits, by one minus one.
    check(lambda x: functional.gelu(x, approximate=approximate), WHOLE_LINE, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", ["asin", "acos", "atanh", "tan"])
def test_on_the_unit_interval(name: str) -> None:
    check(getattr(torch, name), UNIT, rtol=1e-12, atol=1e-15)


def test_acosh_and_prelu() -> None:
    check(
        torch.acosh,
        torch.tensor([1.0, 1.0 + 1e-10, 1.5, 30, 1e200, float("inf"), 0.5], dtype=torch.float64),
        rtol=1e-12,
    )
    check(functional.prelu, torch.randn(2, 3).double(), torch.tensor([0.1, 0.2, 0.3]).double(), rtol=1e-12)


def test_a_type_that_onnx_does_not_have_is_refused() -> None:
    with pytest.raises(onnx_lab.UnsupportedCaseError, match=r"ONNX has no torch\.complex32"):
        onnx_lab.export(Function(lambda x: x.chalf() * 2), (torch.randn(3),))
