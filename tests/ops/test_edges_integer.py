"""Shifts, gcd and lcm over every integer type, out-of-range shifts included."""

from __future__ import annotations

import pytest
import torch

from tests.ops.harness import check

TYPES = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]


@pytest.mark.parametrize("dtype", TYPES)
def test_shifts(dtype: torch.dtype) -> None:
    limits = torch.iinfo(dtype)
    x = torch.tensor([limits.min, limits.max, 0, 1, 5, 100], dtype=dtype)
    amounts = torch.tensor([0, 1, 3, limits.bits - 1], dtype=dtype)
    check(lambda a, b: (a.unsqueeze(1) << b, a.unsqueeze(1) >> b), x, amounts)
    check(lambda a: (a << 2, a >> 2), x)


@pytest.mark.parametrize("dtype", TYPES)
def test_gcd_and_lcm(dtype: torch.dtype) -> None:
    x = torch.tensor([[12], [0], [7]], dtype=dtype)
    y = torch.tensor([18, 0, 5, 1], dtype=dtype)
    check(lambda a, b: (torch.gcd(a, b), torch.lcm(a, b)), x, y, dynamic=[{0: "n"}, {0: "m"}], again=[(x[:2], y[:3])])


def test_gcd_of_negative_numbers_and_rank_0() -> None:
    check(torch.gcd, torch.tensor([-12, 9, -7]), torch.tensor(6))
    check(torch.lcm, torch.tensor(-4), torch.tensor(6))


@pytest.mark.parametrize("dtype", TYPES)
def test_powers_wrap_around(dtype: torch.dtype) -> None:
    base = torch.tensor([[-3], [-1], [0], [1], [2], [7]]).to(dtype)
    exponents = torch.tensor([0, 1, 2, 5, 40, 63]).to(dtype)
    check(torch.pow, base, exponents, dynamic=[{0: "n"}, None], again=[(base[:3], exponents)])
    check(lambda x: (x**0, x**4, x**35, 2**x), base.abs())


def test_negative_exponents() -> None:
    base = torch.tensor([[-3], [-1], [1], [2]])
    check(lambda x, n: torch.pow(x, n), base, torch.tensor([-1, -2, 3]))
    check(lambda x: x.pow(torch.tensor(-3)), base)
