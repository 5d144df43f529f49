"""Where torch looks when it resizes one axis: indices for nearest, weights for the other modes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_lab.lower.context import Context, Size

FLOAT, DOUBLE, INT64 = ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.INT64
Array = np.ndarray[Any, Any]
_MOST_SIZES = 4096  # sizes up to which a rounding rule is tried when the real one is not known


@dataclass(frozen=True, slots=True)
class ResizedAxis:
    """One axis: its place, size, new size, and the scale if the user gave one (it then decides positions)."""

    axis: int
    size: Size
    out: Size
    scale: float | None

    @property
    def fixed(self) -> tuple[int, int] | None:
        """Both sizes when they are known."""
        return (self.size, self.out) if isinstance(self.size, int) and isinstance(self.out, int) else None

    def repeats(self) -> bool:
        """Whether nearest only repeats each element a whole number of times, by torch's rounding too."""
        if self.fixed is not None and self.fixed[0]:
            size, out = self.fixed
            times = out // size
            return times * size == out and self._picks_each(times)
        if self.scale is None or self.scale != int(self.scale):
            return False
        times = int(self.scale)
        tried = ResizedAxis(self.axis, _MOST_SIZES, _MOST_SIZES * times, self.scale)
        return tried._picks_each(times)

    def _picks_each(self, times: int) -> bool:
        index = nearest_index(self, exact=False, small=False)
        return bool((index == np.arange(len(index)) // times).all())

    def scales_exactly(self) -> bool:
        """Whether Resize by this scale gives torch's size, and an unchanged size does not arise from another scale.

        ONNX computes floor(size · scale) in float, torch in double; and where the size stays as it is, ONNX
        Runtime copies, while torch copies in linear mode only.
        """
        if self.scale is None or self.scale == 1:
            return True
        if self.fixed is None:
            return float(self.scale * 4096).is_integer() and not 1 < self.scale < 1.5
        size, out = self.fixed
        return size != out and int(np.floor(np.float32(size) * np.float32(self.scale))) == out


# -- nearest ----------------------------------------------------------------------------------------------


def nearest_index(one: ResizedAxis, exact: bool, small: bool) -> Array:
    """The element that torch takes, in its float arithmetic.

    For small images it knows equal and doubled sizes; elsewhere "exact" is computed with a fused multiply-add.
    """
    size, out = one.fixed or (0, 0)
    number = np.arange(out)
    if small and not exact and out in (size, 2 * size):
        return number if out == size else number // 2
    step = np.float32(1 / one.scale) if one.scale else np.float32(size) / np.float32(out or 1)
    if not exact:
        place = number.astype(np.float32) * step
    elif small:
        place = (number + 0.5).astype(np.float32) * step
    else:
        place = (np.float64(step) * (number + 0.5) - 0.5).astype(np.float32) + np.float32(0.5)
    return np.minimum(np.floor(place).astype(np.int64), size - 1)


def pick(ctx: Context, one: ResizedAxis, exact: bool, small: bool | ir.Value) -> ir.Value | None:
    """Indices for Gather; None when every element stays. ``small``: see ``nearest_index``."""
    if one.fixed is not None and not isinstance(small, ir.Value):
        fixed = nearest_index(one, exact, small)
        return None if fixed.tolist() == list(range(one.fixed[0])) else ctx.constant(fixed)
    op = ctx.op
    whole = _numbers(ctx, one.out)
    number = ctx.cast(whole, FLOAT)
    place = op.Mul(op.Add(number, 0.5) if exact else number, _step(ctx, one))
    index = ctx.cast(op.Floor(place), INT64)
    if one.scale and not exact and (small or isinstance(small, ir.Value)):
        size, out, small = ctx.value(one.size), ctx.value(one.out), ctx.value(small)
        doubled = op.And(small, op.Equal(out, op.Mul(size, 2)))
        index = op.Where(doubled, op.Div(whole, 2), index)
        index = op.Where(op.And(small, op.Equal(out, size)), whole, index)
    index = op.Min(index, op.Sub(ctx.value(one.size), 1))
    index.shape = ir.Shape([None])
    return index


def _numbers(ctx: Context, count: Size) -> ir.Value:
    """0 to count − 1."""
    made: ir.Value = ctx.op.Range(ctx.constant(0), ctx.value(count), ctx.constant(1))
    made.shape = ir.Shape([count if isinstance(count, int) else None])
    return made


def _step(ctx: Context, one: ResizedAxis) -> ir.Value:
    """Old elements per new one, in float."""
    if one.scale:
        return ctx.constant(float(np.float32(1 / one.scale)), FLOAT)
    return ctx.op.Div(ctx.cast(ctx.value(one.size), FLOAT), ctx.cast(ctx.value(one.out), FLOAT))


# -- weights ----------------------------------------------------------------------------------------------


def _triangle(x: Array) -> Array:
    return np.maximum(0.0, 1.0 - np.abs(x))


def _cubic(a: float) -> Callable[[Array], Array]:
    """Keys' cubic convolution kernel."""

    def kernel(x: Array) -> Array:
        x = np.abs(x)
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((x - 5) * x + 8) * x * a - 4 * a
        return np.select([x < 1, x < 2], [near, far], 0.0)

    return kernel


def _lanczos(x: Array) -> Array:
    return np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0.0)


# kind -> (half width, kernel)
_ANTIALIASED: dict[str, tuple[int, Callable[[Array], Array]]] = {
    "linear_aa": (1, _triangle),
    "cubic_aa": (2, _cubic(-0.5)),
    "lanczos_aa": (3, _lanczos),
}


def weights(ctx: Context, one: ResizedAxis, kind: str, align_corners: bool) -> ir.Value | None:
    """A ``(size, new size)`` matrix in double or float; None when the axis stays as it is."""
    if one.fixed is None:
        return _weights_at_run_time(ctx, one, kind, align_corners)
    size, out = one.fixed
    if size == out and (one.scale in (None, 1.0) or kind != "cubic"):
        return None
    step = _fixed_step(one, align_corners)
    matrix = (
        _antialiased(size, out, step, kind)
        if kind in _ANTIALIASED
        else _interpolated(size, out, step, kind, align_corners)
    )
    return ctx.constant(matrix.T.astype(np.float64), DOUBLE)


def _fixed_step(one: ResizedAxis, align_corners: bool) -> float:
    size, out = one.fixed or (0, 0)
    if align_corners:
        return (size - 1) / (out - 1) if out > 1 else 0.0
    return 1 / one.scale if one.scale else size / max(out, 1)


def _antialiased(size: int, out: int, step: float, kind: str) -> Array:
    """Each new element averages what lies under its kernel, which widens as the image shrinks."""
    half, kernel = _ANTIALIASED[kind]
    width = max(step, 1.0)
    centre = step * (np.arange(out) + 0.5)
    first = np.maximum((centre - half * width + 0.5).astype(np.int64), 0)
    end = np.minimum((centre + half * width + 0.5).astype(np.int64), size)
    place = np.arange(size)
    made = kernel((place - centre[:, None] + 0.5) / width)
    made = np.where((place >= first[:, None]) & (place < end[:, None]), made, 0.0)
    return made / made.sum(axis=1, keepdims=True)


def _interpolated(size: int, out: int, step: float, kind: str, align_corners: bool) -> Array:
    """Two or four neighbours; beyond the border the border element counts."""
    number = np.arange(out)
    place = step * number if align_corners else step * (number + 0.5) - 0.5
    kernel, reach = (_triangle, (0, 1)) if kind == "linear" else (_cubic(-0.75), (-1, 0, 1, 2))
    if kind == "linear":
        place = np.maximum(place, 0.0)
    base = np.floor(place).astype(np.int64)
    made = np.zeros((out, size))
    for offset in reach:
        at = np.clip(base + offset, 0, size - 1)
        np.add.at(made, (number, at), kernel(place - base - offset))
    return made


def _weights_at_run_time(ctx: Context, one: ResizedAxis, kind: str, align_corners: bool) -> ir.Value:
    """The same matrix as ``_antialiased`` or ``_interpolated`` makes, computed in the graph."""
    if kind not in ("linear", "linear_aa", "cubic_aa"):
        ctx.unsupported("size", f"dynamic, in mode {kind}", "keep the resized axes static")
    op = ctx.op
    size, out = (ctx.cast(ctx.value(value), FLOAT) for value in (one.size, one.out))
    if align_corners:
        step = op.Div(op.Sub(size, 1.0), op.Max(op.Sub(out, 1.0), ctx.constant(1.0, FLOAT)))
        step = op.Where(op.Greater(out, 1.0), step, 0.0)
    else:
        step = _step(ctx, one)
    number = ctx.cast(_numbers(ctx, one.out), FLOAT)
    place = op.Unsqueeze(ctx.cast(_numbers(ctx, one.size), FLOAT), [1])  # (size, 1) against (new size,)
    step = op.Where(op.Equal(ctx.value(one.size), ctx.value(one.out)), 1.0, step)
    if kind == "linear":
        source = op.Mul(step, number) if align_corners else op.Sub(op.Mul(step, op.Add(number, 0.5)), 0.5)
        source = op.Min(op.Max(source, ctx.constant(0.0, FLOAT)), op.Sub(size, 1.0))
        return op.Max(op.Sub(1.0, op.Abs(op.Sub(place, source))), ctx.constant(0.0, FLOAT))
    return _antialiased_at_run_time(ctx, kind, size, step, number, place)


def _antialiased_at_run_time(
    ctx: Context, kind: str, size: ir.Value, step: ir.Value, number: ir.Value, place: ir.Value
) -> ir.Value:
    op, zero = ctx.op, ctx.constant(0.0, FLOAT)
    half = float(_ANTIALIASED[kind][0])
    width = op.Max(step, ctx.constant(1.0, FLOAT))
    centre = op.Mul(step, op.Add(number, 0.5))
    reach = op.Mul(width, half)
    first = op.Max(op.Floor(op.Add(op.Sub(centre, reach), 0.5)), zero)
    end = op.Min(op.Floor(op.Add(op.Add(centre, reach), 0.5)), size)
    x = op.Abs(op.Div(op.Add(op.Sub(place, centre), 0.5), width))
    if kind == "linear_aa":
        made = op.Max(op.Sub(1.0, x), zero)
    else:
        near = op.Add(op.Mul(op.Sub(op.Mul(x, 1.5), 2.5), op.Mul(x, x)), 1.0)
        far = op.Add(op.Mul(op.Mul(op.Add(op.Mul(op.Sub(x, 5.0), x), 8.0), x), -0.5), 2.0)
        made = op.Where(op.Less(x, 1.0), near, op.Where(op.Less(x, 2.0), far, 0.0))
    inside = op.And(op.GreaterOrEqual(place, first), op.Less(place, end))
    made = op.Where(inside, made, 0.0)
    return op.Div(made, op.ReduceSum(made, [0], keepdims=1))
