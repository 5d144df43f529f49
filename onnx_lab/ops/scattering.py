"""Writing by index: scatter, index_put, index_add and their reductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_lab.lower.context import Context
from onnx_lab.lower.registry import lowering
from onnx_lab.ops.indexing import IndexPlan, plan_indices, stacked, to_front

INT64, BOOL = ir.DataType.INT64, ir.DataType.BOOL
REDUCTIONS = {"sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min"}


@lowering("aten::index_put", "aten::_unsafe_index_put")
def index_put(
    ctx: Context, x: ir.Value, indices: Sequence[ir.Value | None], values: ir.Value, accumulate: bool = False
) -> ir.Value:
    """x[indices] = values (or +=): Where for one mask and one value, else ScatterND."""
    if (mask := _lone_mask(indices)) is not None and not accumulate and ctx.rank(values) == 0:
        trailing = ctx.rank(x) - ctx.rank(mask) - _leading(indices)
        lined = ctx.unsqueeze(mask, list(range(-trailing, 0))) if trailing else mask
        return ctx.op.Where(lined, ctx.cast(values, x.dtype), x)
    rank = ctx.rank(x)
    plan = plan_indices(ctx, indices)
    order = to_front(rank, plan.axes)
    front, at = ctx.transpose(x, order), stacked(ctx, plan)
    updates = _updates(ctx, front, plan, at, ctx.cast(values, x.dtype))
    written = ctx.op.ScatterND(front, at, updates, reduction="add" if accumulate else None)
    return ctx.transpose(written, [order.index(axis) for axis in range(rank)])


@lowering("aten::_index_put_impl")
def index_put_impl(
    ctx: Context,
    x: ir.Value,
    indices: Sequence[ir.Value | None],
    values: ir.Value,
    accumulate: bool = False,
    unsafe: bool = False,
) -> ir.Value:
    return index_put(ctx, x, indices, values, accumulate)


def _lone_mask(indices: Sequence[ir.Value | None]) -> ir.Value | None:
    found = [index for index in indices if index is not None]
    return found[0] if len(found) == 1 and found[0].dtype == BOOL else None


def _leading(indices: Sequence[ir.Value | None]) -> int:
    return next(i for i, index in enumerate(indices) if index is not None)


def _updates(ctx: Context, front: ir.Value, plan: IndexPlan, at: ir.Value, values: ir.Value) -> ir.Value:
    """``values`` broadcast to torch's result shape, with the index dims ``B`` brought to the front."""
    batch, rest = plan.batch_rank, ctx.rank(front) - len(plan.axes)
    batch_shape, rest_shape = ctx.shape(at, 0, batch), ctx.shape(front, len(plan.axes))
    before = 0 if plan.front else plan.axes[0]
    parts = [ctx.shape(front, len(plan.axes), len(plan.axes) + before), batch_shape] if before else [batch_shape]
    parts.append(ctx.shape(front, len(plan.axes) + before) if before else rest_shape)
    kept = [part for part in parts if not _is_empty(part)]
    target = ctx.op.Concat(*kept, axis=0) if len(kept) > 1 else kept[0] if kept else ctx.constant(_NOTHING)
    full = ctx.op.Expand(values, target)
    full.shape = ir.Shape([None] * (batch + rest))
    return ctx.transpose(full, [*range(before, before + batch), *range(before), *range(before + batch, batch + rest)])


_NOTHING = np.asarray([], dtype=np.int64)


def _is_empty(part: ir.Value) -> bool:
    return part.shape is not None and part.shape[0] == 0


def _scatter(ctx: Context, x: ir.Value, dim: int, index: ir.Value, src: ir.Value, reduction: str | None) -> ir.Value:
    """ScatterElements with torch's freedoms: 0-D operands, and a source larger than the index."""
    if ctx.rank(x) == 0 or ctx.rank(index) == 0:
        flat = [ctx.reshape(one, [-1]) for one in (x, index, src)]
        made = ctx.op.ScatterElements(*flat, axis=0, reduction=reduction)
        return ctx.op.Reshape(made, ctx.shape(x))
    if not _fixed_equal(index, src):
        axes = list(range(ctx.rank(index)))
        src = ctx.op.Slice(src, [0] * len(axes), ctx.shape(index), axes)
    return ctx.op.ScatterElements(x, index, src, axis=ctx.axis(x, dim), reduction=reduction)


def _fixed_equal(a: ir.Value, b: ir.Value) -> bool:
    return a.shape is not None and a.shape == b.shape and all(isinstance(dim, int) for dim in a.shape)


def _reduction(ctx: Context, reduce: str) -> str:
    return REDUCTIONS[reduce] if reduce in REDUCTIONS else ctx.unsupported("reduce", reduce)


@lowering("aten::scatter.src")
def scatter(ctx: Context, x: ir.Value, dim: int, index: ir.Value, src: ir.Value) -> ir.Value:
    return _scatter(ctx, x, dim, index, src, None)


@lowering("aten::scatter.value")
def scatter_value(ctx: Context, x: ir.Value, dim: int, index: ir.Value, value: Any) -> ir.Value:
    return _scatter(ctx, x, dim, index, _spread(ctx, value, x, index), None)


@lowering("aten::scatter.reduce")
def scatter_with(ctx: Context, x: ir.Value, dim: int, index: ir.Value, src: ir.Value, *, reduce: str) -> ir.Value:
    return _scatter(ctx, x, dim, index, src, _reduction(ctx, reduce))


@lowering("aten::scatter.value_reduce")
def scatter_value_with(ctx: Context, x: ir.Value, dim: int, index: ir.Value, value: Any, *, reduce: str) -> ir.Value:
    return _scatter(ctx, x, dim, index, _spread(ctx, value, x, index), _reduction(ctx, reduce))


@lowering("aten::scatter_add")
def scatter_add(ctx: Context, x: ir.Value, dim: int, index: ir.Value, src: ir.Value) -> ir.Value:
    return _scatter(ctx, x, dim, index, src, "add")


def _spread(ctx: Context, value: Any, x: ir.Value, index: ir.Value) -> ir.Value:
    return ctx.op.Expand(ctx.value(value, x.dtype), ctx.shape(index))


@lowering("aten::scatter_reduce.two")
def scatter_reduce(
    ctx: Context, x: ir.Value, dim: int, index: ir.Value, src: ir.Value, reduce: str, *, include_self: bool = True
) -> ir.Value:
    """Reduce src into x; without include_self the touched elements start from the neutral value."""
    if reduce == "mean":
        return _scatter_mean(ctx, x, dim, index, src, include_self)
    start = x if include_self else _neutral_start(ctx, x, dim, index, reduce)
    return _scatter(ctx, start, dim, index, src, _reduction(ctx, reduce))


def _neutral_start(ctx: Context, x: ir.Value, dim: int, index: ir.Value, reduce: str) -> ir.Value:
    return _scatter(ctx, x, dim, index, _spread(ctx, _neutral(x, reduce), x, index), None)


def _neutral(x: ir.Value, reduce: str) -> Any:
    assert x.dtype is not None
    if reduce in ("amax", "amin"):
        sign = -1 if reduce == "amax" else 1
        if x.dtype == BOOL:
            return reduce == "amin"
        if x.dtype.is_floating_point():
            return sign * float("inf")
        limits = np.iinfo(x.dtype.numpy())
        return int(limits.min if reduce == "amax" else limits.max)
    return 1 if reduce in ("prod", "multiply") else 0


def _scatter_mean(ctx: Context, x: ir.Value, dim: int, index: ir.Value, src: ir.Value, include_self: bool) -> ir.Value:
    """Sum over count; integers round down, as torch does."""
    start = x if include_self else _neutral_start(ctx, x, dim, index, "sum")
    total = _scatter(ctx, start, dim, index, src, "add")
    ones = ctx.op.Expand(ctx.constant(1, x.dtype), ctx.shape(x))
    first = ones if include_self else ctx.op.Sub(ones, ones)
    count = _scatter(ctx, first, dim, index, _spread(ctx, 1, x, index), "add")
    count = ctx.op.Max(count, 1)
    if x.dtype is not None and x.dtype.is_floating_point():
        return ctx.op.Div(total, count)
    quotient = ctx.op.Div(total, count)
    rest = ctx.op.Sub(total, ctx.op.Mul(quotient, count))
    return ctx.op.Where(ctx.op.Less(rest, 0), ctx.op.Sub(quotient, 1), quotient)


def _along(ctx: Context, index: ir.Value, like: ir.Value, dim: int) -> ir.Value:
    """A 1-D index along ``dim``, expanded to the shape of ``like``."""
    axis, rank = ctx.axis(like, dim), ctx.rank(like)
    flat = ctx.cast(ctx.reshape(index, [-1]), INT64)
    if rank <= 1:
        return flat
    lined = ctx.unsqueeze(flat, [one for one in range(rank) if one != axis])
    return ctx.op.Expand(lined, ctx.shape(like))


@lowering("aten::index_add")
def index_add(ctx: Context, x: ir.Value, dim: int, index: ir.Value, source: ir.Value, *, alpha: float = 1) -> ir.Value:
    if alpha != 1:
        source = ctx.op.Mul(source, ctx.value(alpha, source.dtype))
    return _indexed(ctx, x, dim, index, source, "add")


@lowering("aten::index_copy")
def index_copy(ctx: Context, x: ir.Value, dim: int, index: ir.Value, source: ir.Value) -> ir.Value:
    return _indexed(ctx, x, dim, index, source, None)


@lowering("aten::index_reduce")
def index_reduce(
    ctx: Context,
    x: ir.Value,
    dim: int,
    index: ir.Value,
    source: ir.Value,
    reduce: str,
    *,
    include_self: bool = True,
) -> ir.Value:
    data, flat = _at_least_1d(ctx, x, source)
    made = scatter_reduce(ctx, data, dim, _along(ctx, index, flat, dim), flat, reduce, include_self=include_self)
    return made if ctx.rank(x) else ctx.reshape(made, [])


def _indexed(ctx: Context, x: ir.Value, dim: int, index: ir.Value, source: ir.Value, reduction: str | None) -> ir.Value:
    data, flat = _at_least_1d(ctx, x, source)
    made = ctx.op.ScatterElements(
        data, _along(ctx, index, flat, dim), flat, axis=ctx.axis(data, dim), reduction=reduction
    )
    return made if ctx.rank(x) else ctx.reshape(made, [])


def _at_least_1d(ctx: Context, x: ir.Value, source: ir.Value) -> tuple[ir.Value, ir.Value]:
    return tuple(one if ctx.rank(one) else ctx.reshape(one, [1]) for one in (x, source))  # type: ignore[return-value]


@lowering("aten::put")
def put(ctx: Context, x: ir.Value, index: ir.Value, source: ir.Value, accumulate: bool = False) -> ir.Value:
    """Write into the flat tensor."""
    flat = ctx.op.ScatterElements(
        ctx.flatten(x), ctx.flatten(index), ctx.flatten(source), axis=0, reduction="add" if accumulate else None
    )
    return ctx.op.Reshape(flat, ctx.shape(x))
