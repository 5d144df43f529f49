"""Quantization: fake quantization as QuantizeLinear and DequantizeLinear, and the operators of quantized programs."""

from __future__ import annotations

import pytest
import torch

from tests.ops.harness import check

X = torch.randn(3, 4, generator=torch.Generator().manual_seed(1)) * 3


def kinds(result):
    return [node.op_type for node in result.model.graph]


@pytest.mark.parametrize(("low", "high"), [(0, 255), (-128, 127), (0, 127), (-127, 127), (-8, 7), (0, 15), (0, 65535)])
def test_per_tensor(low: int, high: int) -> None:
    made = check(lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 4, low, high), X)
    assert kinds(made)[-2:] == ["QuantizeLinear", "DequantizeLinear"]


@pytest.mark.parametrize(("opset", "kind"), [(20, "INT8"), (21, "INT4"), (25, "INT4")])
def test_four_bits_where_the_opset_has_them(opset: int, kind: str) -> None:
    made = check(lambda x: torch.fake_quantize_per_tensor_affine(x, 0.5, 2, -8, 7), X, opset=opset)
    [stored] = [node.outputs[0] for node in made.model.graph if node.op_type == "QuantizeLinear"]
    assert stored.dtype.name == kind


def test_parameters_as_tensors() -> None:
    scale, zero = torch.tensor(0.1), torch.tensor(4, dtype=torch.int32)
    check(lambda x, s, z: torch.fake_quantize_per_tensor_affine(x, s, z, 0, 255), X, scale, zero)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("low", "high"), [(-128, 127), (-8, 7)])
def test_per_channel(axis: int, low: int, high: int) -> None:
    scales = torch.tensor([0.1, 0.2, 0.3, 0.5])[: X.shape[axis]]
    zeros = torch.tensor([0, 2, -4, 2], dtype=torch.int32)[: X.shape[axis]]
    check(lambda x: torch.fake_quantize_per_channel_affine(x, scales, zeros, axis, low, high), X)


def test_zero_points_that_are_no_whole_numbers() -> None:
    scales, zeros = torch.tensor([0.1, 0.2, 0.3, 0.5]), torch.tensor([0.0, 1.5, 2.25, 3.0])
    check(lambda x: torch.fake_quantize_per_channel_affine(x, scales, zeros, 1, 0, 15), X)


@pytest.mark.parametrize(
    ("dtype", "low", "high"), [(torch.int8, -128, 127), (torch.uint8, 0, 255), (torch.int8, -8, 7)]
)
def test_the_operators_of_quantized_programs(dtype: torch.dtype, low: int, high: int) -> None:
    import torch.ao.quantization.fx._decomposed

    space = torch.ops.quantized_decomposed

    def per_tensor(x: torch.Tensor) -> torch.Tensor:
        q = space.quantize_per_tensor(x, 0.1, 3, low, high, dtype)
        return q, space.dequantize_per_tensor(q, 0.1, 3, low, high, dtype)

    def per_channel(x: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor) -> torch.Tensor:
        q = space.quantize_per_channel(x, scales, zeros, 0, low, high, dtype)
        return q, space.dequantize_per_channel(q, scales, zeros, 0, low, high, dtype)

    check(per_tensor, X)
    check(per_channel, X, torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0, 1, 2]), dynamic=[{1: "n"}, None, None])
