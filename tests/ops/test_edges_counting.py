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


# -- segments and bags ----------------------------------------------------------------------------------

REDUCTIONS = ["sum", "mean", "max", "min", "prod"]


@pytest.mark.parametrize("initial", [None, 2.0])
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_segments(reduce: str, initial: float | None) -> None:
    def by_lengths(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return torch.segment_reduce(x, reduce, lengths=lengths, initial=initial)

    def by_offsets(x: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return torch.segment_reduce(x, reduce, offsets=offsets, initial=initial, unsafe=True)

    hard = torch.tensor([1.0, NAN, 3, INF, -INF, 2])
    check(by_lengths, hard, torch.tensor([0, 2, 1, 0, 3]))
    check(by_offsets, torch.randn(6, 2), torch.tensor([1, 1, 3, 5]))
    check(by_lengths, torch.randn(4, 3).double(), torch.tensor([4]))
    check(by_lengths, torch.randn(0, 3), torch.tensor([0, 0]))
    check(
        lambda x, n: torch.segment_reduce(x, reduce, lengths=n, axis=1, initial=initial, unsafe=True),
        torch.randn(2, 5, 3),
        torch.tensor([[2, 3, 0], [1, 0, 3]]),
    )


def test_segments_of_dynamic_sizes() -> None:
    again = [(torch.randn(5, 4), torch.tensor([1, 0, 4])), (torch.randn(0, 4), torch.tensor([0]))]
    for reduce in REDUCTIONS:
        check(
            lambda x, n, reduce=reduce: torch.segment_reduce(x, reduce, lengths=n, unsafe=True),
            torch.randn(3, 4),
            torch.tensor([2, 1]),
            dynamic=[{0: "rows"}, {0: "segments"}],
            again=again,
        )


WEIGHT = torch.randn(7, 3)
BAGS = torch.tensor([1, 2, 0, 4, 6, 2, 2])
OFFSETS = torch.tensor([0, 2, 2, 5, 7])


@pytest.mark.parametrize("padding", [None, 2, -1, -5])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bags(mode: str, last: bool, padding: int | None) -> None:
    def bags(x: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.embedding_bag(
            x, WEIGHT, offsets, mode=mode, include_last_offset=last, padding_idx=padding
        )

    again = [(torch.zeros(0, dtype=torch.int64), torch.tensor([0, 0])), (BAGS[:3], torch.tensor([0, 3]))]
    check(bags, BAGS, OFFSETS, dynamic=[{0: "words"}, {0: "bags"}], again=again)
    check(bags, BAGS.int(), OFFSETS.int())


def test_embedding_bags_of_other_kinds() -> None:
    bag = torch.nn.functional.embedding_bag
    table = torch.tensor([[1, 2], [0, 0], [6, 3]])
    for mode in ("sum", "mean", "max"):
        check(lambda x, mode=mode: bag(x, WEIGHT, mode=mode), table, dynamic=[{0: "bags"}], again=[(table[:1],)])
        for dtype in (torch.float64, torch.float16, torch.bfloat16):
            check(lambda x, mode=mode, dtype=dtype: bag(x, WEIGHT.to(dtype), mode=mode), table, rtol=1e-2, atol=1e-2)
    check(lambda x, w: bag(x, WEIGHT, mode="sum", per_sample_weights=w), table, torch.rand(3, 2))
    check(lambda x: bag(x, WEIGHT.clone(), max_norm=1.0, norm_type=1.0), table)
    check(torch.nn.EmbeddingBag(7, 3, mode="mean").eval(), table)


def test_nan_in_bags() -> None:
    weight = torch.tensor([[1.0, NAN], [NAN, -INF], [2.0, 3.0], [-INF, INF]])
    words = torch.tensor([0, 1, 2, 1, 2, 1, 3, 3, 1, 0])
    for mode in ("sum", "mean", "max"):
        for padding in (None, 1):
            check(
                lambda x, n, mode=mode, padding=padding: torch.nn.functional.embedding_bag(
                    x, weight, n, mode=mode, padding_idx=padding
                ),
                words,
                torch.tensor([0, 3, 5, 6, 7]),
            )


@pytest.mark.parametrize("opset", [18, 21, 28])
def test_opsets(opset: int) -> None:
    def everything(x: torch.Tensor) -> Any:
        lengths = torch.tensor([2, 3])
        segments = [torch.segment_reduce(x, reduce, lengths=lengths) for reduce in REDUCTIONS]
        bags = [torch.nn.functional.embedding_bag(BAGS, WEIGHT, OFFSETS, mode=mode) for mode in ("mean", "max")]
        counts = torch.histc(x, 5, 0, 2), *torch.histogram(x, 4), torch.bincount(x.long()), x.unique_consecutive(dim=0)
        return *segments, *bags, *counts, torch.nonzero_static(x, size=3)

    check(everything, torch.tensor([0.0, 1, 1, 2, 0]), opset=opset)


@pytest.mark.parametrize("norm_type", [1.0, 2.0, 2.5, INF])
def test_embeddings_of_a_greatest_norm(norm_type: float) -> None:
    x = torch.tensor([[1, 1], [0, 6]])
    check(lambda x: torch.nn.functional.embedding(x, WEIGHT.clone(), max_norm=1.0, norm_type=norm_type), x)


# -- losses, random windows -----------------------------------------------------------------------------


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("shape", [(), (4,), (2, 3), (0,)])
def test_losses(shape: tuple[int, ...], reduction: str) -> None:
    x, y = torch.randn(shape) * 2, torch.randn(shape)
    sign = torch.randint(-1, 2, shape).float()
    functional: Any = torch.nn.functional
    check(lambda *given: functional.margin_ranking_loss(*given, margin=0.5, reduction=reduction), x, y, sign)
    check(lambda *given: functional.hinge_embedding_loss(*given, margin=0.5, reduction=reduction), x, sign)
    check(lambda *given: functional.soft_margin_loss(*given, reduction=reduction), x, sign)


def test_losses_broadcast_and_keep_nan() -> None:
    x = torch.tensor([[1.0, NAN, -3.0]])
    check(lambda x, y, s: torch.nn.functional.margin_ranking_loss(x, y, s), x, torch.zeros(2, 3), torch.ones(2, 1))
    check(lambda x, s: torch.nn.functional.hinge_embedding_loss(x, s, reduction="none"), x, torch.ones(1, 3))
    check(lambda x, s: torch.nn.functional.hinge_embedding_loss(x, s), x.double()[:, :1], torch.ones(1, 1).int())


@pytest.mark.parametrize("batch", [True, False])
def test_windows_at_random_places(batch: bool) -> None:
    lead = (2, 3) if batch else (3,)
    functional: Any = torch.nn.functional
    samples = torch.rand(lead[0] if batch else 1, 3, 2)
    flat, solid = torch.randn(*lead, 9, 7), torch.randn(*lead, 6, 7, 8)
    flat[..., 4, 3] = NAN
    check(lambda x, s: functional.fractional_max_pool2d(x, (2, 3), (3, 2), _random_samples=s), flat, samples)
    flat[..., 4, 3] = INF
    check(lambda x, s: functional.fractional_max_pool2d(x, 2, (1, 4), None, True, s), flat, samples)
    cube = torch.rand(lead[0] if batch else 1, 3, 3)
    check(lambda x, s: functional.fractional_max_pool3d(x, (2, 3, 2), (3, 2, 4), None, True, s), solid, cube)
    check(lambda x, s: functional.fractional_max_pool3d(x, 2, 3, None, True, s), solid.double(), cube.double())


def test_windows_at_random_places_of_dynamic_sizes() -> None:
    check(
        lambda x, s: torch.nn.functional.fractional_max_pool2d(x, 2, (3, 2), None, True, s),
        torch.randn(2, 3, 9, 7),
        torch.rand(2, 3, 2),
        dynamic=[{0: "n", 2: "h", 3: "w"}, {0: "n"}],
        again=[(torch.randn(1, 3, 5, 12), torch.rand(1, 3, 2))],
    )
