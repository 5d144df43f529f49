"""Convolution and average pooling in double precision and whole numbers, which the runtime has no kernel for."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

import onnx_lab
from tests.ops.harness import Function, check

F64 = torch.float64


@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_convolutions_with_dynamic_sizes(spatial: int) -> None:
    conv = getattr(functional, f"conv{spatial}d")
    x, more = torch.randn(2, 4, *[7] * spatial, dtype=F64), torch.randn(3, 4, *[10] * spatial, dtype=F64)
    weight, bias = torch.randn(6, 2, *[3] * spatial, dtype=F64), torch.randn(6, dtype=F64)

    def run(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return conv(x, w, b, stride=2, padding=1, dilation=2, groups=2)

    dynamic = [{0: "batch", 2: "length"}, None, None]
    if spatial == 1:
        check(run, x, weight, bias, dynamic=dynamic, again=[(more, weight, bias)], rtol=1e-10)
    else:
        check(run, x, weight, bias, rtol=1e-10)


@pytest.mark.parametrize("output_padding", [0, 1])
def test_transposed_convolution(output_padding: int) -> None:
    def run(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return functional.conv_transpose2d(x, w, b, (2, 3), (1, 0), (output_padding, output_padding), 2, (1, 2))

    x, weight, bias = torch.randn(2, 4, 5, 6, dtype=F64), torch.randn(4, 3, 3, 2, dtype=F64), torch.randn(6, dtype=F64)
    check(run, x, weight, bias, rtol=1e-10)


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("include", [False, True])
def test_average_pool(ceil_mode: bool, include: bool) -> None:
    def run(x: torch.Tensor) -> torch.Tensor:
        return functional.avg_pool2d(x, 3, 2, 1, ceil_mode, include)

    check(run, torch.randn(2, 3, 8, 7, dtype=F64), rtol=1e-10)


def test_whole_numbers() -> None:
    big = torch.randint(-(2**40), 2**40, (1, 2, 6))
    check(lambda x, w: functional.conv1d(x, w), big, torch.randint(-9, 9, (3, 2, 2)))
    check(lambda x: functional.avg_pool1d(x, 2), torch.tensor([[[-3, 0, 5, 6, 7, -8]]]))


def test_rounding_up_a_dynamic_size_is_refused() -> None:
    with pytest.raises(onnx_lab.UnsupportedCaseError, match="ceil_mode"):
        onnx_lab.export(
            Function(lambda x: functional.avg_pool1d(x, 3, 2, ceil_mode=True)),
            (torch.randn(1, 2, 8, dtype=F64),),
            dynamic_shapes=(({2: "t"},),),
        )
