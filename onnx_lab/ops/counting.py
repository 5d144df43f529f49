"""Counting: histograms, occurrences, runs of equal elements, places of nonzero elements in a fixed number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_lab.lower.context import Context, Size
from onnx_lab.lower.registry import lowering

INT64, BOOL = ir.DataType.INT64, ir.DataType.BOOL
FLOAT, DOUBLE = ir.DataType.FLOAT, ir.DataType.DOUBLE
INT64_MAX = np.iinfo(np.int64).max
Range = Sequence[float] | None


def _number(ctx: Context, value: int) -> ir.Value:
    return ctx.constant(np.asarray(value))


def numbered(ctx: Context, count: Size) -> ir.Value:
    """0 to count - 1."""
    made: ir.Value = ctx.op.Range(_number(ctx, 0), ctx.value(count, INT64), _number(ctx, 1))
    made.shape = ir.Shape([count if isinstance(count, int) else None])
    return made


def counted(ctx: Context, places: ir.Value, weights: ir.Value | None, count: ir.Value) -> ir.Value:
    """How many of ``places`` are each of 0 to count - 1, or the sum of their weights. ``count`` is a 1-D value."""
    dtype = INT64 if weights is None else weights.dtype or DOUBLE
    zeros = ctx.op.ConstantOfShape(count, value=ir.Tensor(np.zeros(1, dtype.numpy()), dtype=dtype))
    if weights is None:
        weights = ctx.op.Expand(_number(ctx, 1), ctx.op.Shape(places))
    return ctx.op.ScatterElements(zeros, places, weights, axis=0, reduction="add")


# -- histograms -----------------------------------------------------------------------------------------


def _wide(ctx: Context, x: ir.Value) -> ir.Value:
    return x if x.dtype == DOUBLE else ctx.cast(x, FLOAT)


def _limits(ctx: Context, x: ir.Value, given: Range, margin: float) -> tuple[ir.Value, ir.Value]:
    """The outer edges: as given, else the extremes of the 1-D x. A range of one point grows by ``margin`` at each end.

    Nothing at all lies in 0 to 1.
    """
    op, dtype = ctx.op, x.dtype
    if given is not None:
        low, high = given
        wider = margin if low == high else 0
        return ctx.constant(low - wider, dtype), ctx.constant(high + wider, dtype)
    # A first element of the other sign of infinity stands for none.
    ends = [
        getattr(op, f"Reduce{name}")(op.Concat(ctx.constant([fill], dtype), x, axis=0), [0], keepdims=0)
        for name, fill in (("Min", np.inf), ("Max", -np.inf))
    ]
    none = op.Greater(*ends)
    low, high = (op.Where(none, ctx.constant(float(end), dtype), one) for end, one in enumerate(ends))
    one_point = op.Equal(low, high)
    low = op.Where(one_point, op.Sub(low, margin), low)
    return low, op.Where(one_point, op.Add(high, margin), high)


def _edges(ctx: Context, low: ir.Value, high: ir.Value, bins: int) -> ir.Value:
    """Evenly spaced edges, counted from both ends; the step is rounded to the type, the sums only once."""
    op, dtype = ctx.op, low.dtype
    step = op.Div(op.Sub(high, low), ctx.constant(float(bins), dtype))
    low, high, step = (ctx.cast(one, DOUBLE) for one in (low, high, step))
    index = np.arange(bins + 1)
    half = (bins + 1) // 2
    ends = [
        op.Add(low, op.Mul(step, ctx.constant(index[:half].astype(np.float64)))),
        op.Sub(high, op.Mul(step, ctx.constant((bins - index[half:]).astype(np.float64)))),
    ]
    made = ctx.cast(op.Concat(*ends, axis=0), dtype)
    made.shape = ir.Shape([bins + 1])
    return made


def _near(ctx: Context, x: ir.Value, low: ir.Value, high: ir.Value, bins: int) -> ir.Value:
    """The bin by proportion: ⌊(x - low) · bins / (high - low)⌋, for x within the range."""
    op = ctx.op
    share = op.Div(op.Mul(op.Sub(x, low), ctx.constant(float(bins), x.dtype)), op.Sub(high, low))
    found: ir.Value = ctx.cast(op.Where(_inside(ctx, x, low, high), share, ctx.constant(0.0, x.dtype)), INT64)
    found.shape = x.shape
    return found


def _inside(ctx: Context, x: ir.Value, low: ir.Value, high: ir.Value) -> ir.Value:
    return ctx.op.And(ctx.op.GreaterOrEqual(x, low), ctx.op.LessOrEqual(x, high))


def _by_edges(ctx: Context, x: ir.Value, edges: ir.Value) -> ir.Value:
    """The last edge that is not above x, among all edges."""
    below = ctx.op.LessOrEqual(edges, ctx.unsqueeze(x, 1))
    return ctx.op.Sub(ctx.op.ReduceSum(ctx.cast(below, INT64), [1], keepdims=0), 1)


def _by_even_edges(ctx: Context, x: ir.Value, edges: ir.Value, bins: int) -> ir.Value:
    """The same for evenly spaced edges: only those beside the bin by proportion are looked at."""
    op = ctx.op
    near = _near(ctx, x, *_outer(ctx, edges), bins)
    below, above = (ctx.constant([fill], x.dtype) for fill in (-np.inf, np.inf))
    padded = op.Concat(below, edges, above, axis=0)  # one more at each end: edge i is at i + 1
    found = op.Sub(near, 2)
    for offset in (0, 1, 2):
        edge = op.Gather(padded, op.Add(near, offset) if offset else near, axis=0)
        found = op.Add(found, ctx.cast(op.LessOrEqual(edge, x), INT64))
    return found


def _outer(ctx: Context, edges: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The first and the last edge."""
    first, last = (ctx.op.Gather(edges, _number(ctx, place), axis=0) for place in (0, -1))
    return first, last


def _in_last(ctx: Context, place: ir.Value, bins: Size) -> ir.Value:
    """The last edge belongs to the last bin."""
    return ctx.op.Min(place, ctx.value(_one_less(ctx, bins), INT64))


def _one_less(ctx: Context, size: Size) -> Size:
    less: Size = size - 1 if isinstance(size, int) else ctx.op.Sub(size, 1)
    return less


@lowering("aten::histc")
def histc(ctx: Context, x: ir.Value, bins: int = 100, min: Any = 0, max: Any = 0) -> ir.Value:
    """Counts of equal bins; what lies outside, NaN too, is not counted. Equal limits stand for those of the data."""
    op = ctx.op
    data = _wide(ctx, ctx.flatten(x))
    given = None if min == max else (float(min), float(max))
    low, high = _limits(ctx, data, given, 1.0)
    place = _in_last(ctx, _near(ctx, data, low, high, bins), bins)
    place = op.Where(_inside(ctx, data, low, high), place, _number(ctx, bins))
    made = counted(ctx, place, None, ctx.constant([bins + 1]))
    return ctx.cast(op.Slice(made, [0], [bins], [0]), ctx.out_dtype)


def _histogram(
    ctx: Context,
    columns: Sequence[ir.Value],
    edges: Sequence[ir.Value],
    bins: Sequence[int] | None,
    weight: ir.Value | None,
    density: bool,
) -> ir.Value:
    """Counts in a grid of bins; ``columns`` are the coordinates, ``bins`` the numbers of evenly spaced bins."""
    op, dtype = ctx.op, columns[0].dtype or FLOAT
    counts = [_one_less(ctx, ctx.size(edge, 0)) for edge in edges]
    place, inside = _number(ctx, 0), None
    for number, (x, edge, count) in enumerate(zip(columns, edges, counts, strict=True)):
        found = _by_even_edges(ctx, x, edge, bins[number]) if bins is not None else _by_edges(ctx, x, edge)
        place = op.Add(op.Mul(place, ctx.value(count, INT64)), _in_last(ctx, found, count))
        within = _inside(ctx, x, *_outer(ctx, edge))
        inside = within if inside is None else op.And(inside, within)
    sizes = ctx.vector(counts)
    total = op.ReduceProd(sizes, [0], keepdims=1)
    place = op.Where(inside, place, total)
    if weight is not None:
        weight = ctx.cast(ctx.flatten(weight), DOUBLE)
    made = counted(ctx, place, weight, op.Add(total, 1))
    hist = op.Reshape(op.Slice(made, [0], total, [0]), sizes, allowzero=1)
    hist.shape = ir.Shape([count if isinstance(count, int) else None for count in counts])
    hist = ctx.cast(hist, dtype)
    return _as_density(ctx, hist, edges) if density else hist


def _as_density(ctx: Context, hist: ir.Value, edges: Sequence[ir.Value]) -> ir.Value:
    """Shares of the total over the volume of each bin."""
    op = ctx.op
    hist = op.Div(hist, op.ReduceSum(hist, None, keepdims=0))
    for axis, edge in enumerate(edges):
        width = op.Sub(op.Slice(edge, [1], [INT64_MAX], [0]), op.Slice(edge, [0], [-1], [0]))
        hist = op.Div(hist, op.Reshape(width, ctx.constant([1] * axis + [-1] + [1] * (len(edges) - axis - 1))))
    return hist


@lowering("aten::histogram.bin_ct")
def histogram(
    ctx: Context,
    x: ir.Value,
    bins: int = 100,
    *,
    range: Range = None,
    weight: ir.Value | None = None,
    density: bool = False,
) -> tuple[ir.Value, ir.Value]:
    data = ctx.flatten(x)
    edges = _edges(ctx, *_limits(ctx, data, range, 0.5), bins)
    return _histogram(ctx, [data], [edges], [bins], weight, density), edges


@lowering("aten::histogram.bins_tensor")
def histogram_between(
    ctx: Context, x: ir.Value, bins: ir.Value, *, weight: ir.Value | None = None, density: bool = False
) -> tuple[ir.Value, ir.Value]:
    return _histogram(ctx, [ctx.flatten(x)], [bins], None, weight, density), bins


def _columns(ctx: Context, x: ir.Value) -> list[ir.Value]:
    """The coordinates of points: the last axis taken apart."""
    count = ctx.fixed_size(x, -1, "self")
    return [ctx.flatten(ctx.op.Gather(x, _number(ctx, axis), axis=-1)) for axis in range(count)]


def _grid_edges(ctx: Context, columns: Sequence[ir.Value], bins: Sequence[int], given: Range) -> list[ir.Value]:
    ranges = [None if given is None else given[2 * axis : 2 * axis + 2] for axis in range(len(bins))]
    limits = [_limits(ctx, column, one, 0.5) for column, one in zip(columns, ranges, strict=True)]
    return [_edges(ctx, *ends, count) for ends, count in zip(limits, bins, strict=True)]


@lowering("aten::histogramdd")
def histogramdd(
    ctx: Context,
    x: ir.Value,
    bins: Sequence[int],
    range: Range = None,
    weight: ir.Value | None = None,
    density: bool = False,
) -> tuple[ir.Value, list[ir.Value]]:
    columns = _columns(ctx, x)
    edges = _grid_edges(ctx, columns, bins, range)
    return _histogram(ctx, columns, edges, bins, weight, density), edges


@lowering("aten::histogramdd.int_bins")
def histogramdd_alike(
    ctx: Context,
    x: ir.Value,
    bins: int,
    range: Range = None,
    weight: ir.Value | None = None,
    density: bool = False,
) -> tuple[ir.Value, list[ir.Value]]:
    return histogramdd(ctx, x, [bins] * ctx.fixed_size(x, -1, "self"), range, weight, density)


@lowering("aten::histogramdd.TensorList_bins")
def histogramdd_between(
    ctx: Context,
    x: ir.Value,
    bins: Sequence[ir.Value],
    range: Range = None,
    weight: ir.Value | None = None,
    density: bool = False,
) -> tuple[ir.Value, list[ir.Value]]:
    return _histogram(ctx, _columns(ctx, x), bins, None, weight, density), list(bins)


@lowering("aten::_histogramdd_bin_edges")
def histogramdd_bin_edges(
    ctx: Context,
    x: ir.Value,
    bins: Sequence[int],
    *,
    range: Range = None,
    weight: ir.Value | None = None,
    density: bool = False,
) -> list[ir.Value]:
    return _grid_edges(ctx, _columns(ctx, x), bins, range)


@lowering("aten::_histogramdd_from_bin_cts")
def histogramdd_from_bin_cts(
    ctx: Context,
    x: ir.Value,
    bins: Sequence[int],
    *,
    range: Range = None,
    weight: ir.Value | None = None,
    density: bool = False,
) -> ir.Value:
    return histogramdd(ctx, x, bins, range, weight, density)[0]


@lowering("aten::_histogramdd_from_bin_tensors")
def histogramdd_from_bin_tensors(
    ctx: Context,
    x: ir.Value,
    bins: Sequence[ir.Value],
    *,
    weight: ir.Value | None = None,
    density: bool = False,
) -> ir.Value:
    return _histogram(ctx, _columns(ctx, x), bins, None, weight, density)


# -- occurrences ----------------------------------------------------------------------------------------


@lowering("aten::bincount")
def bincount(ctx: Context, x: ir.Value, weights: ir.Value | None = None, minlength: Size = 0) -> ir.Value:
    """How often each number from 0 to the greatest occurs; the size of the result is known only at run time."""
    op, places = ctx.op, ctx.cast(x, INT64)
    longest = op.Concat(places, op.Sub(ctx.vector(minlength), 1), axis=0)
    count = op.Add(op.ReduceMax(longest, [0], keepdims=1), 1)
    exact = ctx.cast(weights, DOUBLE) if weights is not None else None
    made = counted(ctx, places, exact, count)
    made.shape = ir.Shape([None])
    return ctx.cast(made, ctx.out_dtype)


@lowering("aten::nonzero_static")
def nonzero_static(ctx: Context, x: ir.Value, *, size: Size, fill_value: int = -1) -> ir.Value:
    """The first ``size`` places of nonzero elements, in rows; missing ones are filled up."""
    rank = ctx.rank(x)
    if rank == 0:
        return ctx.full([size, 0], 0, INT64)
    found = ctx.op.Transpose(ctx.op.NonZero(ctx.cast(x, ir.DataType.BOOL)), perm=[1, 0])
    rest = ctx.full([size, rank], fill_value, INT64)
    made: ir.Value = ctx.op.Slice(ctx.op.Concat(found, rest, axis=0), [0], ctx.vector(size), [0])
    made.shape = ir.Shape([size if isinstance(size, int) else None, rank])
    return made


# -- runs of equal elements -----------------------------------------------------------------------------


def _runs(ctx: Context, data: ir.Value, axis: int) -> tuple[ir.Value, ir.Value, ir.Value]:
    """One slice of each run of equal ones along an axis, the run of each slice, and the lengths of the runs."""
    op = ctx.op
    size = ctx.size(data, axis)
    index = numbered(ctx, size)
    before = op.Gather(data, op.Max(op.Sub(index, 1), _number(ctx, 0)), axis=axis)
    differs = op.Not(op.Equal(data, before))
    others = [one for one in range(ctx.rank(data)) if one != axis]
    if others:
        # A maximum of no elements is not zero, so the differences are counted.
        differs = ctx.cast(op.ReduceSum(ctx.cast(differs, INT64), others, keepdims=0), BOOL)
    heads = op.Or(differs, op.Equal(index, 0))
    values = op.Compress(data, heads, axis=axis)
    inverse = op.Sub(op.CumSum(ctx.cast(heads, INT64), _number(ctx, 0)), 1)
    starts = ctx.op.Compress(index, heads, axis=0)
    ends = op.Concat(op.Slice(starts, [1], [INT64_MAX], [0]), ctx.vector(size), axis=0)
    # Without a run there is no end either.
    counts = op.Sub(op.Slice(ends, [0], op.Shape(starts), [0]), starts)
    values.shape = ir.Shape([None if one == axis else dim for one, dim in enumerate(data.shape or ())])
    inverse.shape = ir.Shape([size if isinstance(size, int) else None])
    counts.shape = ir.Shape([None])
    return values, inverse, counts


@lowering("aten::unique_consecutive")
def unique_consecutive(
    ctx: Context, x: ir.Value, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> tuple[ir.Value, ...]:
    """Only the first of each run of equal elements (or slices of ``dim``)."""
    if dim is not None and ctx.rank(x):
        return _runs(ctx, x, ctx.axis(x, dim))
    values, inverse, counts = _runs(ctx, ctx.flatten(x), 0)
    # Without a dim, what was not asked for is empty.
    nothing = ctx.full([0], 0, INT64)
    shaped = ctx.op.Reshape(inverse, ctx.shape(x), allowzero=1) if return_inverse else nothing
    return values, shaped, counts if return_counts else nothing


@lowering("aten::unique_dim_consecutive")
def unique_dim_consecutive(
    ctx: Context, x: ir.Value, dim: int, return_inverse: bool = False, return_counts: bool = False
) -> tuple[ir.Value, ...]:
    return _runs(ctx, x, ctx.axis(x, dim))
