"""Histograms, occurrences, runs, bags and segments: ties at edges, NaN, nothing at all, dynamic sizes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.ops.harness import check

NAN, INF = float("nan"), float("inf")
# -- histograms -----------------------------------------------------------------------------------------

SPREAD = torch.linspace(-3, 3, 61)
ONE_POINT = torch.full((5,), 2.0)
DATA = {
    "many": torch.randn(500, generator=torch.Generator().manual_seed(1)) * 3,
    "on_edges": SPREAD,
    "one_point": ONE_POINT,
    "scalar": torch.tensor(1.5),
    "nothing": torch.zeros(2, 0),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", DATA)
def test_histograms(name: str, dtype: torch.dtype) -> None:
    def everything(x: torch.Tensor) -> Any:
        given = torch.tensor([-2.0, -1, -1, 0.3, 2, 3], dtype=dtype)
        counts = torch.histc(x), torch.histc(x, 7, -2, 2), torch.histc(x, 6, 1, 1)
        return *counts, *torch.histogram(x, 9), *torch.histogram(x, 12, range=(-3.0, 3.0)), *torch.histogram(x, given)

    check(everything, DATA[name].to(dtype))


def test_values_outside_and_nan_are_not_counted() -> None:
    x = torch.tensor([NAN, -INF, INF, 0, 1, 2, 3, 3, 4])
    check(lambda x: (torch.histc(x, 3, 0, 3), *torch.histogram(x, 3, range=(0.0, 3.0))), x)


@pytest.mark.parametrize("density", [False, True])
def test_weighted_histograms(density: bool) -> None:
    def weighted(x: torch.Tensor, w: torch.Tensor) -> Any:
        return torch.histogram(x, 6, range=(-3.0, 3.0), weight=w, density=density)

    check(weighted, SPREAD, torch.rand(61))
    check(lambda x: torch.histogram(x, 4, density=True), SPREAD)


def test_histograms_of_dynamic_sizes() -> None:
    def everything(x: torch.Tensor) -> Any:
        return torch.histc(x, 5), *torch.histogram(x, 4), *torch.histogram(x, torch.tensor([0.0, 0.5, 1.0]))

    check(everything, torch.rand(5, 3), dynamic=[{0: "rows"}], again=[(torch.rand(9, 3),), (torch.rand(0, 3),)])


@pytest.mark.parametrize("density", [False, True])
def test_histograms_in_several_dims(density: bool) -> None:
    points, weight = torch.rand(50, 2) * 4, torch.rand(50)
    check(lambda x: torch.histogramdd(x, [3, 5], density=density), points)
    check(lambda x, w: torch.histogramdd(x, 4, range=[0.0, 2.0, 1.0, 3.0], weight=w, density=density), points, weight)
    edges = [torch.tensor([0.0, 1.0, 4.0]), torch.tensor([1.0, 2.0, 2.5, 3.0])]
    check(
        lambda x: torch.histogramdd(x, edges, density=density),
        points,
        dynamic=[{0: "points"}],
        again=[(points[:7],)],
    )


# -- occurrences ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("minlength", [0, 3, 20])
def test_bincount(minlength: int) -> None:
    x = torch.tensor([1, 5, 5, 0, 2])
    again = [(torch.tensor([9]),), (torch.zeros(0, dtype=torch.int64),)]
    check(lambda x: torch.bincount(x, minlength=minlength), x, dynamic=[{0: "n"}], again=again)
    for weights in (torch.rand(5), torch.rand(5).double(), torch.arange(5), torch.rand(5).half()):
        check(lambda x, w: torch.bincount(x, w, minlength), x, weights)
    check(lambda x: torch.bincount(x, minlength=minlength), x.to(torch.uint8))


@pytest.mark.parametrize("size", [0, 2, 9])
def test_nonzero_static(size: int) -> None:
    for x in (torch.tensor([[0, 1, 2], [3, 0, NAN]]), torch.tensor([True, False]), torch.tensor(3), torch.zeros(2, 0)):
        check(lambda x: torch.nonzero_static(x, size=size, fill_value=-7), x)
    check(
        lambda x: torch.nonzero_static(x, size=size),
        torch.tensor([1.0, 0.0, 2.0]),
        dynamic=[{0: "n"}],
        again=[(torch.zeros(5),), (torch.ones(11),)],
    )


# -- runs -----------------------------------------------------------------------------------------------

RUNS = torch.tensor([[1, 1, 2], [1, 1, 2], [3, 1, 2], [1, 1, 2]])


@pytest.mark.parametrize("dim", [None, 0, 1, -1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.int32, torch.float16])
def test_unique_consecutive(dim: int | None, dtype: torch.dtype) -> None:
    def runs(x: torch.Tensor) -> Any:
        return torch.unique_consecutive(x, return_inverse=True, return_counts=True, dim=dim)

    check(runs, RUNS.to(dtype))
    again = [(RUNS[:1].to(dtype),), (RUNS[[0, 2, 2, 0, 0]].to(dtype),)]
    check(runs, RUNS.to(dtype), dynamic=[{0: "rows"}], again=again)


def test_unique_consecutive_of_little() -> None:
    for x in (torch.tensor(2.0), torch.zeros(0), torch.zeros(0, 3), torch.tensor([NAN, NAN, 1.0])):
        check(lambda x: torch.unique_consecutive(x, return_inverse=True, return_counts=True), x)
    check(lambda x: torch.unique_consecutive(x, return_counts=True, dim=1), torch.zeros(5, 0, 5))
    check(lambda x: torch.unique_consecutive(x), torch.tensor([1.0, 1, 2]))
    check(lambda x: x.unique_consecutive(return_counts=True, dim=-1), torch.tensor([[1.0, 1, 2]]))
