"""Maxima over windows whose places are random: fractional max pooling (Graham 2014)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_lab.lower.context import Context, Size
from onnx_lab.lower.registry import lowering

INT64 = ir.DataType.INT64


def _starts(ctx: Context, size: Size, kernel: int, count: int, sample: ir.Value) -> ir.Value:
    """Where the windows of an axis begin: ⌊(i + u) α⌋ - ⌊u α⌋ with α = (size - kernel) / (count - 1).

    The last one ends with the axis. ``sample`` holds u for each sample and channel, (N, C).
    """
    op, dtype = ctx.op, sample.dtype
    room = ctx.constant(np.asarray(size - kernel)) if isinstance(size, int) else op.Sub(size, kernel)
    last = op.Expand(op.Unsqueeze(room, [0, 1, 2]), op.Concat(ctx.shape(sample), ctx.constant([1]), axis=0))
    last.shape = ir.Shape([None, None, 1])
    if count == 1:
        return last
    alpha = op.Div(ctx.cast(room, dtype), ctx.constant(float(count - 1), dtype))
    u = op.Unsqueeze(sample, [2])
    index = ctx.constant(np.arange(count - 1, dtype=np.float64).astype(dtype.numpy()), dtype)  # type: ignore[union-attr]
    stepped = ctx.cast(op.Mul(op.Add(u, index), alpha), INT64)
    begin = op.Sub(stepped, ctx.cast(op.Mul(u, alpha), INT64))
    made: ir.Value = op.Concat(begin, last, axis=2)
    made.shape = ir.Shape([None, None, count])
    return made


def _covered(ctx: Context, starts: Sequence[ir.Value], kernel: Sequence[int], sizes: Sequence[Size]) -> ir.Value:
    """Flat places of all elements of all windows: (N, C, windows of each axis, elements of a window)."""
    op, spatial = ctx.op, len(starts)
    inside = np.asarray(list(itertools.product(*map(range, kernel))), dtype=np.int64)
    found: ir.Value | None = None
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        others = [2 + one for one in range(spatial) if one != axis]
        place = op.Unsqueeze(start, [*others, spatial + 2])
        place = op.Add(place, ctx.constant(inside[:, axis]))
        found = place if found is None else op.Add(op.Mul(found, ctx.value(size, INT64)), place)
    assert found is not None
    return found


def _pooled(
    ctx: Context, x: ir.Value, kernel: Sequence[int], counts: Sequence[int], starts: Sequence[ir.Value]
) -> tuple[ir.Value, ir.Value]:
    """Maxima of the windows and their flat places; the first of equal ones, NaN before all."""
    op, spatial = ctx.op, len(kernel)
    sizes = ctx.sizes(x)[-spatial:]
    covered = _covered(ctx, starts, kernel, sizes)
    lead = ctx.shape(x, 0, 2)
    flat = op.Reshape(covered, op.Concat(lead, ctx.constant([int(np.prod(counts)) * int(np.prod(kernel))]), axis=0))
    pixels = ctx.op.ReduceProd(ctx.vector(sizes), [0], keepdims=1)
    values = op.GatherElements(op.Reshape(x, op.Concat(lead, pixels, axis=0)), flat, axis=2)
    windows = op.Concat(lead, ctx.constant([*counts, int(np.prod(kernel))]), axis=0)
    values = op.Reshape(values, windows)
    wide = values if x.dtype == ir.DataType.DOUBLE else ctx.cast(values, ir.DataType.FLOAT)
    # NaN counts as infinity, infinity as the greatest number.
    greatest = float(np.finfo(wide.dtype.numpy()).max)  # type: ignore[union-attr]
    ranked = op.Where(op.IsNaN(wide), ctx.constant(np.inf, wide.dtype), op.Min(wide, greatest))
    best = op.ArgMax(ranked, axis=2 + spatial, keepdims=1)
    made = []
    for one in (values, op.Reshape(covered, windows)):
        picked = op.Squeeze(op.GatherElements(one, best, axis=2 + spatial), [2 + spatial])
        picked.shape = ir.Shape([None, None, *counts])
        made.append(picked)
    return made[0], made[1]


def _fractional(
    ctx: Context,
    x: ir.Value,
    kernel_size: Sequence[int],
    output_size: Sequence[int],
    random_samples: ir.Value,
    order: Sequence[int],
) -> tuple[ir.Value, ...]:
    """``order`` tells which random number serves each axis."""
    spatial = len(order)
    kernel, counts = ([one[0]] * spatial if len(one) == 1 else list(one) for one in (kernel_size, output_size))
    single = ctx.rank(x) == spatial + 1
    batched = ctx.unsqueeze(x, 0) if single else x
    starts = []
    for axis, number in enumerate(order):
        sample = ctx.op.Gather(random_samples, ctx.constant(np.asarray(number)), axis=2)
        starts.append(_starts(ctx, ctx.size(batched, axis + 2), kernel[axis], counts[axis], sample))
    results = _pooled(ctx, batched, kernel, counts, starts)
    return tuple(ctx.squeeze(one, 0) for one in results) if single else results


@lowering("aten::fractional_max_pool2d")
def fractional_max_pool2d(
    ctx: Context, x: ir.Value, kernel_size: Sequence[int], output_size: Sequence[int], random_samples: ir.Value
) -> tuple[ir.Value, ...]:
    """Torch takes the second random number for the rows."""
    return _fractional(ctx, x, kernel_size, output_size, random_samples, (1, 0))


@lowering("aten::fractional_max_pool3d")
def fractional_max_pool3d(
    ctx: Context, x: ir.Value, kernel_size: Sequence[int], output_size: Sequence[int], random_samples: ir.Value
) -> tuple[ir.Value, ...]:
    return _fractional(ctx, x, kernel_size, output_size, random_samples, (0, 1, 2))
