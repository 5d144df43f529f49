"""Pooling: cut windows and their divisors, indices, uneven adaptive windows, dynamic sizes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from tests.ops.harness import check

SHAPES = {1: (2, 3, 9), 2: (2, 3, 9, 8), 3: (2, 3, 5, 6, 7)}
MAX = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
AVERAGE = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
TO_AVERAGE = {1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}
TO_MAX = {1: F.adaptive_max_pool1d, 2: F.adaptive_max_pool2d, 3: F.adaptive_max_pool3d}
WINDOWS = [(3, 2, 1), (2, 3, 1), (3, 1, 0), (2, 2, 0), (3, 3, 1), (2, 4, 1)]
OPSETS = (18, 23, 28)


def sizes(spatial: int, *, empty: bool = True) -> dict[str, Any]:
    """Dynamic batch and first spatial axis, and other inputs."""
    _, channels, first, *rest = SHAPES[spatial]
    shapes = [(5, channels, first + 2, *rest), (1, channels, first + 1, *rest)]
    shapes += [(0, channels, first, *rest)] if empty else []
    return {"dynamic": ({0: Dim.DYNAMIC, 2: Dim.DYNAMIC},), "again": [(torch.randn(shape),) for shape in shapes]}


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("spatial", [1, 2, 3])
class TestWindows:
    def test_maximum(self, spatial: int, window: tuple[int, int, int], ceil_mode: bool, opset: int) -> None:
        more = sizes(spatial)
        if spatial == 1:  # torch itself fixes this axis
            more = {"dynamic": ({0: Dim.DYNAMIC},), "again": [(torch.randn(5, 3, 9),), (torch.randn(0, 3, 9),)]}
        x = torch.randn(SHAPES[spatial])
        check(lambda x: MAX[spatial](x, *window, ceil_mode=ceil_mode), x, opset=opset, **more)

    @pytest.mark.parametrize("count_include_pad", [False, True])
    def test_average(
        self, spatial: int, window: tuple[int, int, int], ceil_mode: bool, opset: int, count_include_pad: bool
    ) -> None:
        check(lambda x: AVERAGE[spatial](x, *window, ceil_mode, count_include_pad), torch.randn(SHAPES[spatial]),
              opset=opset, **sizes(spatial))  # fmt: skip


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("spatial", [2, 3])
def test_divisor_override(spatial: int, window: tuple[int, int, int], ceil_mode: bool) -> None:
    check(lambda x: AVERAGE[spatial](x, *window, ceil_mode, False, 5), torch.randn(SHAPES[spatial]))


@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_indices_count_within_one_channel(spatial: int) -> None:
    def pool(x: torch.Tensor) -> Any:
        return MAX[spatial](x, 3, 2, 1, ceil_mode=True, return_indices=True)

    check(pool, torch.randn(SHAPES[spatial]), **sizes(spatial))
    check(pool, torch.zeros(SHAPES[spatial]))  # the first of equals


@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_unbatched_dilated_and_half(spatial: int) -> None:
    x = torch.randn(SHAPES[spatial])
    check(lambda x: MAX[spatial](x, 2), x[0])
    check(lambda x: AVERAGE[spatial](x, 2), x[0])
    check(lambda x: MAX[spatial](x, 2, 3, 1, 2, ceil_mode=True), x)
    check(lambda x: MAX[spatial](x, 3, 2, 1), x.half())
    check(lambda x: TO_AVERAGE[spatial](x, 4), x[0])
    check(lambda x: TO_MAX[spatial](x, 4, return_indices=True), x[0])
    check(lambda x: TO_AVERAGE[spatial](x, 4), x.half(), rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("wanted", [1, 2, 3, 4, 7, 12])
@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_adaptive(spatial: int, wanted: int) -> None:
    x = torch.randn(SHAPES[spatial])
    more = sizes(spatial, empty=wanted == 1)
    check(lambda x: TO_AVERAGE[spatial](x, wanted), x)
    check(lambda x: TO_AVERAGE[spatial](x, wanted), x, **more)
    check(lambda x: TO_MAX[spatial](x, wanted), x)
    check(lambda x: TO_MAX[spatial](x, wanted, return_indices=True), x)
    check(lambda x: TO_MAX[spatial](x, wanted, return_indices=True), x, **sizes(spatial, empty=False))


def test_adaptive_corner_cases() -> None:
    check(nn.AdaptiveAvgPool2d((None, 3)), torch.randn(1, 2, 7, 8))
    check(nn.AdaptiveAvgPool2d((5, 4)), torch.randn(1, 2, 7, 10))
    infinite = torch.where(torch.rand(1, 1, 7, 8) > 0.9, torch.inf, torch.randn(1, 1, 7, 8))
    check(nn.AdaptiveAvgPool2d(3), infinite)  # an infinity stays in its windows
    result = check(nn.AdaptiveAvgPool2d(1), torch.randn(2, 3, 4, 4))
    assert [node.op_type for node in result.model.graph] == ["GlobalAveragePool"]


@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_unpooling(spatial: int) -> None:
    unpool = {1: F.max_unpool1d, 2: F.max_unpool2d, 3: F.max_unpool3d}[spatial]

    def there_and_back(x: torch.Tensor) -> torch.Tensor:
        y, indices = MAX[spatial](x, 2, 2, return_indices=True)
        return unpool(y, indices, 2, 2, output_size=x.shape)

    check(there_and_back, torch.randn(SHAPES[spatial]))


def test_power_average() -> None:
    check(lambda x: F.lp_pool2d(x, 2, 3, 2, ceil_mode=True), torch.randn(2, 3, 9, 8))
    check(lambda x: F.lp_pool1d(x, 3, 2), torch.rand(2, 3, 9))


def test_other_types() -> None:
    check(lambda x: F.max_pool2d(x, 2), (torch.rand(1, 1, 4, 4) * 255).to(torch.uint8))
    check(lambda x: F.max_pool2d(x, 2), torch.arange(16).reshape(1, 1, 4, 4))


@pytest.mark.xfail(strict=True, reason="ORT: MaxPool passes over NaN", raises=AssertionError)
def test_maximum_of_windows_with_nan() -> None:
    check(lambda x: F.max_pool2d(x, 2), torch.tensor([[[[float("nan"), 1], [2, 3]]]]))
