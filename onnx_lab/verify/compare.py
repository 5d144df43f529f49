"""How far two tensors are apart, without being fooled by NaN, infinity, wrap-around or emptiness."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

# (rtol, atol) by torch dtype: a few units in the last place of a sum of some thousand terms.
TOLERANCES: dict[str, tuple[float, float]] = {
    "float64": (1e-6, 1e-8),
    "float32": (1e-3, 1e-4),
    "float16": (1e-2, 1e-2),
    "bfloat16": (4e-2, 4e-2),
    "complex64": (1e-3, 1e-4),
    "complex128": (1e-6, 1e-8),
}
EXACT = (0.0, 0.0)  # integers and booleans


@dataclass(frozen=True, slots=True)
class Comparison:
    """One pair of tensors.

    Attributes:
        status: ``match``, ``mismatch``, ``nan`` (NaN on one side only), ``shape`` or ``dtype``.
        max_abs: largest absolute difference; infinite where only one side is finite.
        max_rel: largest difference relative to the expected value.
        cosine: cosine similarity of the flattened tensors, NaN where it is not defined.
        index: position of the worst element, None when there is none.
        expected, actual: the two values there.
        detail: a short sentence on a difference of shape or dtype.
    """

    status: str
    max_abs: float = 0.0
    max_rel: float = 0.0
    cosine: float = float("nan")
    index: tuple[int, ...] | None = None
    expected: Any = None
    actual: Any = None
    detail: str = ""

    @property
    def ok(self) -> bool:
        return self.status == "match"


def compare(
    expected: np.ndarray[Any, Any],
    actual: np.ndarray[Any, Any],
    dtype: str,
    *,
    actual_dtype: str | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    scaled: bool = False,
) -> Comparison:
    """Compare an ONNX Runtime value with PyTorch's.

    Args:
        expected: PyTorch's value; bfloat16 widened to float32, complex as ``(*shape, 2)``.
        actual: the runtime's value in the same form.
        dtype: torch dtype name, which decides the default tolerance.
        actual_dtype: dtype name of the runtime's value, when it can differ.
        scaled: measure small elements against the root mean square of the tensor: the rounding of a
            long sum is relative to its terms, which an intermediate value no longer shows.
    """
    if expected.shape != actual.shape:
        return Comparison("shape", detail=f"shape {actual.shape}, eager has {expected.shape}")
    if actual_dtype is not None and actual_dtype != dtype:
        return Comparison("dtype", detail=f"dtype {actual_dtype}, eager has {dtype}")
    if expected.size == 0:
        return Comparison("match", cosine=1.0)
    default = TOLERANCES.get(dtype, EXACT)
    limits = (default[0] if rtol is None else rtol, default[1] if atol is None else atol)
    if expected.dtype.kind in "biu":
        return _whole_numbers(expected, actual, limits)
    return _real_numbers(expected.astype(np.float64), actual.astype(np.float64), limits, scaled)


def _whole_numbers(expected: Any, actual: Any, limits: tuple[float, float]) -> Comparison:
    """Exact differences: Python ints where 64 bits could wrap around."""
    wide = np.int64 if expected.dtype.itemsize < 8 else object
    gap = np.abs(expected.astype(wide) - actual.astype(wide))
    worst = np.unravel_index(int(np.argmax(gap)), gap.shape)
    largest = float(gap[worst])
    with np.errstate(over="ignore"):
        a, b = expected.astype(np.float64), actual.astype(np.float64)
    status = "match" if largest <= limits[1] else "mismatch"
    relative = largest / max(1.0, abs(float(expected[worst])))
    return _result(status, largest, relative, _cosine(a, b), worst, expected, actual)


def _real_numbers(expected: Any, actual: Any, limits: tuple[float, float], scaled: bool) -> Comparison:
    one_nan = np.isnan(expected) != np.isnan(actual)
    same = (np.isnan(expected) & np.isnan(actual)) | (expected == actual)
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.where(same, 0.0, np.abs(expected - actual))
        gap = np.where(one_nan, np.inf, gap)
        size = np.where(np.isfinite(expected), np.abs(expected), 0.0)
        floor = float(np.sqrt(np.mean(size * size))) if scaled else 0.0
        allowed = limits[1] + limits[0] * np.maximum(size, floor)
        relative = np.where(gap == 0, 0.0, gap / np.maximum(size, 1e-12))
    worst = np.unravel_index(int(np.argmax(gap - allowed)), gap.shape)
    broken = bool((gap > allowed).any())
    status = "nan" if one_nan.any() else "mismatch" if broken else "match"
    finite = np.isfinite(expected) & np.isfinite(actual)
    cosine = _cosine(expected[finite], actual[finite])
    return _result(status, float(gap.max()), float(relative.max()), cosine, worst, expected, actual)


def _result(status: str, largest: float, relative: float, cosine: float, worst: Any, a: Any, b: Any) -> Comparison:
    index = tuple(int(axis) for axis in worst)
    return Comparison(status, largest, relative, cosine, index, a[worst].item(), b[worst].item())


def _cosine(a: Any, b: Any) -> float:
    x, y = (torch.from_numpy(np.ascontiguousarray(one)).reshape(-1) for one in (a, b))
    lengths = float(torch.linalg.vector_norm(x) * torch.linalg.vector_norm(y))
    if not np.isfinite(lengths):
        return float("nan")
    if lengths == 0:
        return 1.0 if torch.equal(x, y) else 0.0
    return float(torch.dot(x, y)) / lengths
