"""Order statistics and running totals: NaN, infinities, ties, rank 0, empty and dynamic sizes, every type."""

from __future__ import annotations

import pytest
import torch

from tests.ops.harness import check

NAN, INF = float("nan"), float("inf")
HARD = torch.tensor(
    [[1.0, NAN, 3, 3, -INF, INF], [2, 2, 1, 1, NAN, 0], [INF, INF, -INF, 0, 0, 0], [NAN, NAN, NAN, NAN, NAN, NAN]]
)
DYNAMIC = [{0: "rows", 1: "columns"}]
FUNCTIONS = {
    "sort": lambda x: torch.sort(x, dim=1, stable=True),
    "sort_descending": lambda x: torch.sort(x, dim=1, descending=True, stable=True),
    "topk": lambda x: torch.topk(x, 2, 1)[0],
    "kthvalue": lambda x: torch.kthvalue(x, 3, 1, keepdim=True)[0],
    "median_dim": lambda x: torch.median(x, 1),
    "nanmedian_dim": lambda x: torch.nanmedian(x, 1)[0],
    "nanmedian": torch.nanmedian,
    "median": torch.median,
    "mode": lambda x: torch.mode(x, 1),
    "cummax": lambda x: torch.cummax(x, 1),
    "cummin": lambda x: torch.cummin(x, 0),
    "cumprod": lambda x: torch.cumprod(x, 0),
    "logcumsumexp": lambda x: torch.logcumsumexp(x, 1),
}


@pytest.mark.parametrize("dynamic", [None, DYNAMIC], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_nan_and_infinity(name: str, dynamic: list[dict[int, str]] | None) -> None:
    x = HARD if name != "mode" else HARD.nan_to_num(7.0)  # torch counts each NaN as a value of its own
    check(FUNCTIONS[name], x, dynamic=dynamic, again=[] if dynamic is None else [(torch.randn(5, 7),)])


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.int8, torch.float16, torch.float64])
@pytest.mark.parametrize("name", ["sort", "mode", "median_dim", "cummax", "cummin", "cumprod"])
def test_types(name: str, dtype: torch.dtype) -> None:
    check(FUNCTIONS[name], torch.tensor([[3, 1, 1, 2], [0, 2, 2, 0], [3, 3, 3, 1]]).to(dtype))


@pytest.mark.filterwarnings("ignore:var():UserWarning")  # eager remarks on an empty variance
@pytest.mark.parametrize("name", ["cumprod", "cummax", "logcumsumexp", "sort", "mean", "var"])
def test_rank_0_and_empty_sizes_at_run_time(name: str) -> None:
    function = (
        {
            "cumprod": lambda x: torch.cumprod(x, -1),
            "cummax": lambda x: torch.cummax(x, -1),
            "logcumsumexp": lambda x: torch.logcumsumexp(x, -1),
            "sort": lambda x: torch.sort(x, -1),
            "mean": lambda x: x.mean(-1),
            "var": lambda x: x.var(-1, correction=0),
        }
    )[name]
    check(function, torch.tensor(2.5))
    empty = [(torch.randn(0, 4, 2),), (torch.randn(3, 4, 0),), (torch.randn(5, 9, 3),)]
    check(function, torch.randn(3, 4, 2), dynamic=[{0: "a", 1: "b", 2: "c"}], again=empty)


def test_cumprod_overflows_where_torch_does() -> None:
    check(lambda x: torch.cumprod(x, 0), torch.tensor([1e30, 1e30, 1e-30, 1e-30, 0.0]))


@pytest.mark.filterwarnings("ignore:std_mean():UserWarning")  # eager remarks on an empty variance
@pytest.mark.parametrize("shape", [(0,), (3, 0)])
def test_statistics_of_nothing(shape: tuple[int, ...]) -> None:
    check(lambda x: (x.median(), x.nanmedian(), x.mean(), torch.std_mean(x, 0, correction=0)[1]), torch.randn(shape))
