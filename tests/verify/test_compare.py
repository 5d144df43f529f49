"""A difference is neither hidden nor invented."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from onnx_lab.verify.arrays import feed, plain
from onnx_lab.verify.compare import compare

INF, NAN = math.inf, math.nan


def both(a: list[Any], b: list[Any], dtype: torch.dtype, **options: Any) -> Any:
    return compare(torch.tensor(a, dtype=dtype), torch.tensor(b, dtype=dtype), **options)


@pytest.mark.parametrize(
    ("a", "b", "dtype", "status", "max_abs"),
    [
        ([1, 2], [1, 2], torch.float32, "match", 0),
        ([1, 2], [1, 2.5], torch.float32, "mismatch", 0.5),
        ([INF, -INF, NAN], [INF, -INF, NAN], torch.float32, "match", 0),
        ([INF], [-INF], torch.float32, "mismatch", INF),
        ([1.0], [INF], torch.float16, "mismatch", INF),
        ([1.0, 2.0], [NAN, 2.0], torch.float32, "nan", INF),
        ([NAN], [0.0], torch.bfloat16, "nan", INF),
        ([255, 1], [0, 2], torch.uint8, "mismatch", 255),
        ([-128], [127], torch.int8, "mismatch", 255),
        ([2**62], [-(2**62)], torch.int64, "mismatch", 2.0**63),
        ([2**63 - 1], [2**63 - 2], torch.int64, "mismatch", 1),
        ([True, False], [True, True], torch.bool, "mismatch", 1),
        ([0, 2**60 + 1], [0, 2**60 + 1], torch.int64, "match", 0),
        ([3.0e38], [-3.0e38], torch.float32, "mismatch", 6.0e38),
        ([], [], torch.float32, "match", 0),
    ],
)
def test_statuses(a: list[Any], b: list[Any], dtype: torch.dtype, status: str, max_abs: float) -> None:
    found = both(a, b, dtype)
    assert found.status == status
    assert found.max_abs == pytest.approx(max_abs)


def test_shape_and_dtype_are_compared() -> None:
    assert compare(torch.zeros(0, 2), np.zeros((0, 3), np.float32)).status == "shape"
    assert compare(torch.zeros(1), np.float32(0)).detail == "shape [], eager has [1]"
    found = compare(torch.tensor([1, 3]), np.array([1, 2], np.int32))
    assert (found.status, found.detail, found.max_abs) == ("dtype", "dtype int32, eager has int64", 1.0)


def test_numbers_are_0d_tensors() -> None:
    assert compare(3, np.array(3)).ok
    assert compare(True, np.array(True)).ok
    assert compare(2.5, np.array(2.5)).ok
    assert compare(1 + 2j, np.array([1, 2], np.float32)).ok


def test_the_worst_element_and_its_values() -> None:
    a = torch.ones(300, 4000)  # more than one block
    b = a.clone()
    b[299, 17], b[5, 5] = 1.5, 1.2
    found = compare(a, b)
    assert (found.index, found.expected, found.actual) == ((299, 17), 1.0, 1.5)
    assert found.mean_abs == pytest.approx(0.7 / a.numel())
    assert found.max_rel == pytest.approx(0.5)


def test_the_worst_element_is_the_one_furthest_above_its_tolerance() -> None:
    found = both([10000.0, 0.0], [10001.0, 0.5], torch.float32)
    assert found.index == (1,)
    assert found.max_abs == 1.0


def test_similarity() -> None:
    assert both([1, 0], [0, 1], torch.float32).cosine == 0
    assert both([1, 1, NAN], [-1, -1, NAN], torch.float32).cosine == pytest.approx(-1)
    assert both([10, 0], [10, 1], torch.float32).snr == pytest.approx(20)
    assert both([1, 2], [1, 2], torch.float32).snr == INF


def test_small_elements_among_large_ones_are_measured_by_the_size_of_the_tensor() -> None:
    a = torch.full((100,), 80.0)
    a[0] = 0.0
    b = a + 5e-4
    assert compare(a, b).status == "mismatch"
    assert compare(a, b, intermediate=True).status == "match"


@pytest.mark.parametrize("fill", [torch.finfo(torch.float32).min, -10000.0, -INF])
def test_masked_scores_do_not_hide_a_fault(fill: float) -> None:
    a = torch.full((8, 8), fill)
    a[:, 0] = 1.0
    b = a.clone()
    b[3, 0] = 1.1
    assert compare(a, b, intermediate=True).index == (3, 0)
    assert compare(a, b, intermediate=True).status == "mismatch"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.float16])
def test_narrow_floats_through_the_runtime_and_back(dtype: torch.dtype) -> None:
    tensor = torch.randn(3, 4).to(dtype).t()
    fed = feed(tensor)
    back = plain(fed)
    assert back.dtype == str(dtype).removeprefix("torch.")
    np.testing.assert_array_equal(back.array.astype(np.float32), tensor.float().numpy())
    assert compare(tensor, fed).ok


@pytest.mark.parametrize("value", [torch.tensor(2), torch.zeros(0, 3), torch.tensor([1 + 2j]).conj(), True, 7])
def test_scalars_empty_and_complex_values(value: Any) -> None:
    assert compare(value, feed(value)).ok
