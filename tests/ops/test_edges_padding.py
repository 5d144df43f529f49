"""Padding: negative widths, every mode and rank, types, widths known at run time."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

from tests.ops.harness import check

OPSETS = (18, 23, 28)


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize(
    "widths",
    [(1, 2), (1, 2, 0, 3), (-1, 2), (2, -1), (-1, -1, 3, -2), (0, 0), (0, 0, 1, 1), (1, 2, 3, 4, 5, 6, 7, 8), (-4, -3)],
    ids=str,
)
def test_constant(widths: tuple[int, ...], opset: int) -> None:
    check(lambda x: F.pad(x, widths, value=1.5), torch.randn(2, 3, 6, 7), opset=opset)
    check(lambda x: F.pad(x, widths), torch.randn(2, 3, 6, 7), opset=opset)


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize(
    ("shape", "widths"),
    [
        ((2, 3, 6), (1, 2)),
        ((3, 6), (2, 2)),
        ((2, 3, 6, 7), (1, 2, 3, 4)),
        ((2, 3, 6, 7), (0, 2, 3, 0)),
        ((3, 6, 7), (1, 2, 3, 4)),
        ((2, 3, 5, 6, 7), (1, 2, 3, 2, 0, 4)),
        ((2, 3, 6, 7), (0, 0, 0, 0)),
        ((2, 3, 7), (6, 6)),
    ],
    ids=str,
)
def test_modes_that_repeat(mode: str, shape: tuple[int, ...], widths: tuple[int, ...], opset: int) -> None:
    check(lambda x: F.pad(x, widths, mode=mode), torch.randn(shape), opset=opset)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("widths", [(-1, 2), (1, -2)], ids=str)
def test_negative_widths_crop(mode: str, widths: tuple[int, ...]) -> None:
    check(lambda x: F.pad(x, widths, mode=mode), torch.randn(2, 3, 6))


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_dynamic_sizes_and_widths(mode: str, opset: int) -> None:
    size = ({0: Dim.DYNAMIC, 2: Dim.DYNAMIC, 3: Dim.DYNAMIC},)
    x, more = torch.randn(2, 3, 6, 7), torch.randn(1, 3, 9, 5)
    check(lambda x: F.pad(x, (1, 2, 3, 4), mode=mode), x, dynamic=size, again=[(more,)], opset=opset)

    def to_a_multiple_of_8(x: torch.Tensor) -> torch.Tensor:
        return F.pad(x, (0, -x.shape[3] % 8, 0, -x.shape[2] % 8), mode=mode)

    if mode in ("constant", "replicate"):
        check(to_a_multiple_of_8, x, dynamic=size, again=[(more,), (torch.randn(2, 3, 8, 9),)], opset=opset)


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.uint8, torch.int8, torch.int32, torch.int64, torch.float16, torch.float64], ids=str
)
def test_types(dtype: torch.dtype) -> None:
    check(lambda x: F.pad(x, (1, 2), value=1), (torch.randn(2, 3) * 3).to(dtype))


def test_infinity_and_empty_axes() -> None:
    check(lambda x: F.pad(x, (1, 2), value=float("-inf")), torch.randn(2, 3))
    size = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},)
    check(
        lambda x: F.pad(x, (1, 2)), torch.randn(2, 3), dynamic=size, again=[(torch.randn(0, 3),), (torch.randn(2, 0),)]
    )
