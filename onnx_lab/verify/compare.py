"""How far two tensors are apart, without being fooled by NaN, infinity, wrap-around or emptiness."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onnx_lab.verify.arrays import plain

# (rtol, atol) by torch dtype: a few units in the last place of a sum of some thousand terms.
TOLERANCES: dict[str, tuple[float, float]] = {
    "float64": (1e-6, 1e-8),
    "float32": (1e-3, 1e-4),
    "float16": (1e-2, 1e-2),
    "bfloat16": (4e-2, 4e-2),
    # One step of the last place: three and two bits of mantissa.
    "float8_e4m3fn": (0.13, 0.01),
    "float8_e4m3fnuz": (0.13, 0.01),
    "float8_e5m2": (0.26, 0.01),
    "float8_e5m2fnuz": (0.26, 0.01),
}
EXACT = (0.0, 0.0)  # integers and booleans
_BLOCK = 1 << 20  # elements compared at a time, so that wide copies stay small
_SAMPLE = 1 << 16
# Rounding noise of an intermediate value, relative to the size of the tensor: where large terms cancel, a
# small element carries the error of its terms. Real convolutional networks show 1e-5 in float32; a
# tanh-approximated GELU in place of the exact one shows 2e-4.
_NOISE = {"float64": 6e-14, "float32": 3e-5, "float16": 2e-3, "bfloat16": 1.6e-2}
_MASK = 1e3  # scores are masked with numbers beyond this, which are not the size of anything
NAN = float("nan")


@dataclass(frozen=True, slots=True)
class Comparison:
    """One pair of tensors.

    Attributes:
        status: ``match``, ``mismatch``, ``nan`` (NaN on one side only), ``shape`` or ``dtype``.
        max_abs: largest absolute difference; infinite where only one side is finite or NaN; NaN when the
            shapes differ.
        mean_abs: mean absolute difference.
        max_rel: largest difference relative to the expected value, or to ``atol`` where that is larger.
        cosine: cosine similarity of the elements that are finite on both sides, NaN where not defined.
        snr: energy of the expected values against that of the difference, in decibels.
        index: position of the worst element (the one furthest above its tolerance), None for no element.
        expected, actual: the two values there.
        detail: a short sentence on a difference of shape or dtype.
    """

    status: str
    max_abs: float = 0.0
    mean_abs: float = 0.0
    max_rel: float = 0.0
    cosine: float = 1.0
    snr: float = math.inf
    index: tuple[int, ...] | None = None
    expected: Any = None
    actual: Any = None
    detail: str = ""

    @property
    def ok(self) -> bool:
        return self.status == "match"


def compare(
    expected: Any,
    actual: Any,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    intermediate: bool = False,
) -> Comparison:
    """Compare a value of ONNX Runtime with PyTorch's.

    An element agrees when ``|actual - expected| <= atol + rtol * |expected|``; equal infinities agree, and
    NaN with NaN.

    Args:
        expected, actual: torch tensors, numbers, numpy arrays or values of the runtime; complex tensors
            are compared as ``(*shape, 2)``.
        rtol, atol: default: ``TOLERANCES`` of the expected dtype; integers and bools are exact.
        intermediate: without explicit tolerances, allow for the noise of sums whose terms cancelled, by
            the size of the tensor (the root mean square, without what only masks).
    """
    (a, want), (b, got) = plain(expected), plain(actual)
    if a.shape != b.shape:
        detail = f"shape {list(b.shape)}, eager has {list(a.shape)}"
        return Comparison("shape", NAN, NAN, NAN, NAN, NAN, detail=detail)
    default = TOLERANCES.get(want, EXACT)
    limits = (default[0] if rtol is None else rtol, default[1] if atol is None else atol)
    whole = a.dtype.kind in "biu" and b.dtype.kind in "biu"
    sums = _Sums(whole, limits)
    sums.add_all(a, b)
    if intermediate and want in _NOISE and rtol is None and atol is None and sums.broken:
        sums = _Sums(whole, (limits[0], limits[1] + _NOISE[want] * _scale(a)))
        sums.add_all(a, b)
    detail = "" if want == got else f"dtype {got}, eager has {want}"
    return sums.result(a, b, detail)


@dataclass(slots=True)
class _Sums:
    """What is known of the difference after some blocks of elements."""

    whole: bool
    limits: tuple[float, float]
    count: int = 0
    max_abs: float = 0.0
    max_rel: float = 0.0
    gaps: float = 0.0
    broken: bool = False
    one_nan: bool = False
    worst: int = 0
    excess: float = -math.inf
    products: np.ndarray[Any, Any] = field(default_factory=lambda: np.zeros(4))  # a·b, a·a, b·b, (a-b)·(a-b)

    def add_all(self, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> None:
        left, right = a.reshape(-1), b.reshape(-1)
        with np.errstate(invalid="ignore", over="ignore"):
            for start in range(0, left.size, _BLOCK):
                self._add(start, left[start : start + _BLOCK], right[start : start + _BLOCK])

    def _add(self, start: int, a: Any, b: Any) -> None:
        x, y = a.astype(np.float64), b.astype(np.float64)
        gap = _whole_gap(a, b) if self.whole else self._real_gap(x, y)
        size = np.where(np.isfinite(x), np.abs(x), 0.0)
        rtol, atol = self.limits
        excess = gap - (atol + rtol * size)
        at = int(np.argmax(excess))
        if excess[at] > self.excess:
            self.excess, self.worst = float(excess[at]), start + at
        self.broken |= bool(excess[at] > 0)
        self.max_abs = max(self.max_abs, float(gap.max()))
        floor = max(atol, 1.0 if self.whole else np.finfo(np.float64).tiny)
        self.max_rel = max(self.max_rel, float((gap / np.maximum(size, floor)).max()))
        self.gaps += float(gap.sum())
        self.count += gap.size
        finite = np.isfinite(x) & np.isfinite(y)
        if not finite.all():
            x, y, gap = x[finite], y[finite], gap[finite]
        self.products += [x @ y, x @ x, y @ y, gap @ gap]

    def _real_gap(self, x: Any, y: Any) -> Any:
        nan_x, nan_y = np.isnan(x), np.isnan(y)
        only_one = nan_x != nan_y
        self.one_nan |= bool(only_one.any())
        gap = np.where((x == y) | (nan_x & nan_y), 0.0, np.abs(x - y))
        return np.where(only_one, np.inf, gap)

    def result(self, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], detail: str) -> Comparison:
        status = "dtype" if detail else "nan" if self.one_nan else "mismatch" if self.broken else "match"
        if not self.count:
            return Comparison(status, detail=detail)
        index = tuple(int(axis) for axis in np.unravel_index(self.worst, a.shape))
        product, left, right, noise = (float(one) for one in self.products)
        return Comparison(
            status,
            max_abs=self.max_abs,
            mean_abs=self.gaps / self.count,
            max_rel=self.max_rel,
            cosine=_cosine(product, left, right),
            snr=_decibels(left, noise),
            index=index,
            expected=a[index].item(),
            actual=b[index].item(),
            detail=detail,
        )


def _whole_gap(a: Any, b: Any) -> Any:
    """Exact differences of integers and bools, rounded to float64 only at the end."""
    if a.dtype.itemsize < 8 and b.dtype.itemsize < 8:
        return np.abs(a.astype(np.int64) - b.astype(np.int64)).astype(np.float64)
    if a.dtype != b.dtype:
        return np.abs(a.astype(np.float64) - b.astype(np.float64))
    # The distance of two 64-bit integers fits into 64 bits without a sign, where arithmetic wraps around.
    low, high = np.minimum(a, b).astype(np.uint64), np.maximum(a, b).astype(np.uint64)
    return (high - low).astype(np.float64)


def _scale(a: np.ndarray[Any, Any]) -> float:
    """The root mean square of the magnitudes below ``_MASK``."""
    flat = a.reshape(-1)
    step = flat.size // _SAMPLE | 1  # odd, so that it does not walk down one column
    sample = np.abs(flat[::step].astype(np.float64))
    sample = sample[sample < _MASK]
    return float(np.sqrt(np.mean(sample * sample))) if sample.size else 0.0


def _cosine(product: float, left: float, right: float) -> float:
    if left == 0 or right == 0:
        return 1.0 if left == right else 0.0
    lengths = math.sqrt(left) * math.sqrt(right)
    return max(-1.0, min(1.0, product / lengths)) if math.isfinite(lengths) else NAN


def _decibels(signal: float, noise: float) -> float:
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if 0 < signal < math.inf and noise < math.inf else NAN
