"""Order statistics along an axis: sort, topk, kthvalue, median, mode. NaN is greater than every number, as in torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_lab.lower.context import Context
from onnx_lab.lower.registry import lowering
from onnx_lab.ops.running import running

INT64, BOOL = ir.DataType.INT64, ir.DataType.BOOL
FLOAT, DOUBLE = ir.DataType.FLOAT, ir.DataType.DOUBLE
Pair = tuple[ir.Value, ir.Value]


def _is_float(x: ir.Value) -> bool:
    return x.dtype is not None and x.dtype.is_floating_point()


def _ranked(ctx: Context, x: ir.Value) -> ir.Value:
    """X in a type that TopK takes; NaN comes after all numbers.

    TopK itself has no order for NaN. Infinity becomes the greatest finite number and NaN infinity.
    """
    kernels = (FLOAT, DOUBLE, ir.DataType.INT32, INT64)
    wide = x if x.dtype in kernels else ctx.cast(x, FLOAT if _is_float(x) else INT64)
    if not _is_float(x):
        return wide
    limit = float(np.finfo(wide.dtype.numpy()).max)  # type: ignore[union-attr]
    return ctx.op.Where(ctx.op.IsNaN(wide), ctx.constant(np.inf, wide.dtype), ctx.op.Min(wide, limit))


def ordered(ctx: Context, x: ir.Value, count: ir.Value, axis: int, largest: bool, in_order: bool = True) -> Pair:
    """TopK along an axis: values and places; equal elements keep their order."""
    key = _ranked(ctx, x)
    values, where = ctx.op.TopK(key, count, axis=axis, largest=int(largest), sorted=int(in_order), outputs=2)
    if _is_float(x):
        values = ctx.op.GatherElements(x, where, axis=axis)
    return ctx.cast(values, x.dtype), where


def _scalar(ctx: Context, x: ir.Value) -> Pair:
    return x, ctx.constant(np.asarray(0))


@lowering("aten::topk")
def topk(ctx: Context, x: ir.Value, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True) -> Pair:
    if ctx.rank(x) == 0:
        return _scalar(ctx, x)
    return ordered(ctx, x, ctx.vector(k), ctx.axis(x, dim), largest, sorted)


@lowering("aten::sort")
def sort(ctx: Context, x: ir.Value, dim: int = -1, descending: bool = False) -> Pair:
    """TopK of all elements: equal ones keep their order, which makes it stable."""
    if ctx.rank(x) == 0:
        return _scalar(ctx, x)
    axis = ctx.axis(x, dim)
    return ordered(ctx, x, ctx.vector(ctx.size(x, axis)), axis, descending)


@lowering("aten::sort.stable")
def sort_stable(ctx: Context, x: ir.Value, *, stable: bool | None, dim: int = -1, descending: bool = False) -> Pair:
    return sort(ctx, x, dim, descending)


@lowering("aten::msort")
def msort(ctx: Context, x: ir.Value) -> ir.Value:
    return sort(ctx, x, 0)[0]


@lowering("aten::argsort")
def argsort(ctx: Context, x: ir.Value, dim: int = -1, descending: bool = False) -> ir.Value:
    return sort(ctx, x, dim, descending)[1]


@lowering("aten::argsort.stable")
def argsort_stable(ctx: Context, x: ir.Value, *, stable: bool, dim: int = -1, descending: bool = False) -> ir.Value:
    return sort(ctx, x, dim, descending)[1]


# -- one element of the sorted row ----------------------------------------------------------------------


def _one_of(ctx: Context, pair: Pair, place: ir.Value, axis: int, keepdim: bool) -> Pair:
    """The elements at ``place`` of an axis; ``place`` has that axis with size 1."""
    found = [ctx.op.GatherElements(part, place, axis=axis) for part in pair]
    return tuple(one if keepdim else ctx.squeeze(one, axis) for one in found)  # type: ignore[return-value]


def _last(ctx: Context, pair: Pair, axis: int, keepdim: bool) -> Pair:
    """The last elements of an axis."""
    found = [ctx.op.Slice(part, [-1], [np.iinfo(np.int64).max], [axis]) for part in pair]
    return tuple(one if keepdim else ctx.squeeze(one, axis) for one in found)  # type: ignore[return-value]


@lowering("aten::kthvalue")
def kthvalue(ctx: Context, x: ir.Value, k: Any, dim: int = -1, keepdim: bool = False) -> Pair:
    if ctx.rank(x) == 0:
        return _scalar(ctx, x)
    axis = ctx.axis(x, dim)
    return _last(ctx, ordered(ctx, x, ctx.vector(k), axis, False), axis, keepdim)


@lowering("aten::median.dim")
def median_dim(ctx: Context, x: ir.Value, dim: int, keepdim: bool = False) -> Pair:
    """The lower of the two middle elements; a NaN anywhere in the row is the answer, at its first place."""
    if ctx.rank(x) == 0:
        return _scalar(ctx, x)
    op, axis = ctx.op, ctx.axis(x, dim)
    size = ctx.size(x, axis)
    half = (size + 1) // 2 if isinstance(size, int) else op.Div(op.Add(size, 1), 2)
    values, places = _last(ctx, ordered(ctx, x, ctx.vector(half), axis, False), axis, True)
    if _is_float(x):
        spoiled = ctx.cast(op.IsNaN(x), ir.DataType.INT32)
        any_spoiled = ctx.cast(op.ReduceMax(spoiled, [axis], keepdims=1), BOOL)
        values = op.Where(any_spoiled, ctx.constant(np.nan, x.dtype), values)
        places = op.Where(any_spoiled, op.ArgMax(spoiled, axis=axis, keepdims=1), places)
    return (values, places) if keepdim else (ctx.squeeze(values, axis), ctx.squeeze(places, axis))


@lowering("aten::nanmedian.dim")
def nanmedian_dim(ctx: Context, x: ir.Value, dim: int, keepdim: bool = False) -> Pair:
    """The lower median of the numbers in the row; NaN when there is none."""
    if ctx.rank(x) == 0 or not _is_float(x):
        return median_dim(ctx, x, dim, keepdim)
    op, axis = ctx.op, ctx.axis(x, dim)
    numbers = op.ReduceSum(ctx.cast(op.Not(op.IsNaN(x)), INT64), [axis], keepdims=1)
    place = op.Max(op.Div(op.Sub(numbers, 1), 2), ctx.constant(np.asarray(0)))
    pair = ordered(ctx, x, ctx.vector(ctx.size(x, axis)), axis, False)
    return _one_of(ctx, pair, place, axis, keepdim)


def _of_all(ctx: Context, x: ir.Value, function: Any) -> ir.Value:
    """A row statistic of all elements; NaN (for integers: the smallest) of none."""
    if 0 in ctx.sizes(x):
        fill: Any = np.nan if _is_float(x) else np.iinfo(x.dtype.numpy()).min  # type: ignore[union-attr]
        return ctx.constant(fill, x.dtype)
    return function(ctx, ctx.flatten(x), 0)[0]


@lowering("aten::median")
def median(ctx: Context, x: ir.Value) -> ir.Value:
    return _of_all(ctx, x, median_dim)


@lowering("aten::nanmedian")
def nanmedian(ctx: Context, x: ir.Value) -> ir.Value:
    return _of_all(ctx, x, nanmedian_dim)


@lowering("aten::mode")
def mode(ctx: Context, x: ir.Value, dim: int = -1, keepdim: bool = False) -> Pair:
    """The most frequent element of the row, the smallest among equals, and the last place where it stands.

    In the sorted row equal elements are neighbours: each element's run starts at the last place that
    differs from the one before.
    """
    if ctx.rank(x) == 0:
        return _scalar(ctx, x)
    op, axis = ctx.op, ctx.axis(x, dim)
    values, places = sort(ctx, x, axis)
    key = _ranked(ctx, values)
    size = ctx.size(x, axis)
    index = op.Range(ctx.constant(0), ctx.value(size), ctx.constant(1))
    index.shape = ir.Shape([size if isinstance(size, int) else None])
    index = ctx.reshape(index, [-1 if one == axis else 1 for one in range(ctx.rank(x))])
    before = op.Slice(key, [0], [-1], [axis])
    differs = op.Not(op.Equal(op.Slice(key, [1], [np.iinfo(np.int64).max], [axis]), before))
    head = ctx.full([1 if one == axis else n for one, n in enumerate(ctx.sizes(x))], 1, BOOL)
    starts = op.Where(op.Concat(head, differs, axis=axis), index, ctx.constant(np.asarray(0)))
    starts.shape = x.shape
    start = running(ctx, starts, axis, op.Max, 0)
    longest = op.ArgMax(op.Sub(index, start), axis=axis, keepdims=1)
    return _one_of(ctx, (values, places), longest, axis, keepdim)
