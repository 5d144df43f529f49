"""Running totals along an axis: sums, products, extrema, log-sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_lab.lower.context import Context, Size
from onnx_lab.lower.registry import lowering

INT32, INT64, BOOL = ir.DataType.INT32, ir.DataType.INT64, ir.DataType.BOOL
FLOAT, DOUBLE = ir.DataType.FLOAT, ir.DataType.DOUBLE
_KERNELS = (FLOAT, DOUBLE, INT32, INT64)
Combine = Callable[[ir.Value, ir.Value], ir.Value]


def _wide(ctx: Context, x: ir.Value, dtype: ir.DataType) -> ir.Value:
    """X as ``dtype``, then in a type that the runtime computes with and that holds the same numbers."""
    x = ctx.cast(x, dtype)
    if dtype in _KERNELS:
        return x
    return ctx.cast(x, FLOAT if dtype.is_floating_point() else INT64)


@lowering("aten::cumsum")
def cumsum(ctx: Context, x: ir.Value, dim: int, *, dtype: ir.DataType | None = None) -> ir.Value:
    target = ctx.out_dtype
    if ctx.rank(x) == 0:
        return ctx.cast(x, target)
    return ctx.cast(ctx.op.CumSum(_wide(ctx, x, target), ctx.constant(ctx.axis(x, dim))), target)


@lowering("aten::cumprod")
def cumprod(ctx: Context, x: ir.Value, dim: int, *, dtype: ir.DataType | None = None) -> ir.Value:
    """One step an element, in torch's order, so that overflow and underflow come at the same place."""
    target = ctx.out_dtype
    if ctx.rank(x) == 0:
        return ctx.cast(x, target)
    if 0 in ctx.sizes(x):
        return ctx.cast(x, target)
    # Torch multiplies floats in double precision.
    data = ctx.swap(ctx.cast(x, target), 0, dim)
    data = ctx.cast(data, DOUBLE if target.is_floating_point() else INT64)
    # A Scan would do, but ONNX Runtime's dies of a division by zero when another axis is empty.
    state = ir.Value(name="product", type=data.type, shape=ir.Shape([None] * (ctx.rank(x) - 1)))
    turn = ir.Value(name="turn", type=ir.TensorType(INT64), shape=ir.Shape([]))
    going = ir.Value(name="going", type=ir.TensorType(BOOL), shape=ir.Shape([]))

    def step() -> list[ir.Value]:
        product = ctx.op.Mul(state, ctx.op.Gather(data, turn, axis=0))
        return [ctx.op.Identity(going), product, ctx.op.Identity(product)]

    body = ctx.loop_body([turn, going, state], step, "running_product")
    one = ctx.full(ctx.sizes(data)[1:], 1, data.dtype or FLOAT)
    _, made = ctx.op.Loop(ctx.value(ctx.size(data, 0)), None, one, body=body, outputs=2)
    made.type, made.shape = data.type, data.shape
    if not isinstance(ctx.size(data, 0), int):  # a loop of no turns does not know its rows' size
        made = ctx.op.Reshape(made, ctx.shape(data), allowzero=1)
        made.shape = data.shape
    return ctx.cast(ctx.swap(made, 0, dim), target)


# -- totals that may be combined in any order -----------------------------------------------------------


def _shifted(ctx: Context, x: ir.Value, axis: int, distance: Size, neutral: Any) -> ir.Value:
    """X moved towards the end of an axis, the place that it leaves filled with ``neutral``."""
    rank = ctx.rank(x)
    after = -distance if isinstance(distance, int) else ctx.op.Neg(distance)
    sizes: list[Size] = [0] * (2 * rank)
    sizes[axis], sizes[rank + axis] = distance, after
    made: ir.Value = ctx.op.Pad(x, ctx.vector(sizes), ctx.constant(neutral, x.dtype))
    made.shape = x.shape
    return made


def running(ctx: Context, x: ir.Value, axis: int, combine: Combine, neutral: Any) -> ir.Value:
    """All prefixes of an axis combined, in log₂ n steps of whole tensors (Hillis and Steele, 1986).

    ``combine`` is associative, ``neutral`` its neutral element.
    """
    size = ctx.size(x, axis)
    if isinstance(size, int):
        distance = 1
        while distance < size:
            x = combine(_shifted(ctx, x, axis, distance, neutral), x)
            distance *= 2
        return x
    steps = ctx.op.ReduceSum(ctx.cast(ctx.op.Less(ctx.constant(2 ** np.arange(62)), size), INT64), [0], keepdims=0)
    turn = ir.Value(name="turn", type=ir.TensorType(INT64), shape=ir.Shape([]))
    going = ir.Value(name="going", type=ir.TensorType(BOOL), shape=ir.Shape([]))
    distance_now = ir.Value(name="distance", type=ir.TensorType(INT64), shape=ir.Shape([]))
    state = ir.Value(name="prefixes", type=x.type, shape=x.shape)

    def once() -> list[ir.Value]:
        combined = combine(_shifted(ctx, state, axis, distance_now, neutral), state)
        return [ctx.op.Identity(going), ctx.op.Mul(distance_now, 2), combined]

    body = ctx.loop_body([turn, going, distance_now, state], once, "running")
    _, made = ctx.op.Loop(steps, None, ctx.constant(1), x, body=body, outputs=2)
    made.type, made.shape = x.type, x.shape
    return made


def _extreme_so_far(ctx: Context, x: ir.Value, dim: int, op_type: str) -> tuple[ir.Value, ir.Value]:
    """The extreme of each prefix and the last place where it was reached; NaN is the most extreme of all."""
    if ctx.rank(x) == 0:
        return x, ctx.constant(np.asarray(0))
    op, axis, data = ctx.op, ctx.axis(x, dim), _wide(ctx, x, x.dtype or FLOAT)
    best, beats = ("Max", "GreaterOrEqual") if op_type == "max" else ("Min", "LessOrEqual")
    if data.dtype in (FLOAT, DOUBLE):
        neutral: Any = -np.inf if op_type == "max" else np.inf

        def combine(before: ir.Value, now: ir.Value) -> ir.Value:
            keep = op.Or(op.IsNaN(before), op.Not(getattr(op, beats)(now, before)))
            return op.Where(op.And(keep, op.Not(op.IsNaN(now))), before, now)
    else:
        limits = np.iinfo(data.dtype.numpy())  # type: ignore[union-attr]
        neutral = limits.min if op_type == "max" else limits.max

        def combine(before: ir.Value, now: ir.Value) -> ir.Value:
            return getattr(op, best)(before, now)

    values = running(ctx, data, axis, combine, neutral)
    if not ctx.used(1):
        return ctx.cast(values, x.dtype), None  # type: ignore[return-value]
    reached = op.Equal(data, values)
    if data.dtype in (FLOAT, DOUBLE):
        reached = op.Or(reached, op.IsNaN(data))
    size = ctx.size(x, axis)
    places = op.Range(ctx.constant(0), ctx.value(size), ctx.constant(1))
    places.shape = ir.Shape([size if isinstance(size, int) else None])
    shape = [1] * ctx.rank(x)
    shape[axis] = -1
    seen = op.Where(reached, ctx.reshape(places, shape), ctx.constant(np.asarray(0)))
    seen.shape = x.shape
    last = running(ctx, seen, axis, op.Max, 0)
    return ctx.cast(values, x.dtype), last


@lowering("aten::cummax")
def cummax(ctx: Context, x: ir.Value, dim: int) -> tuple[ir.Value, ir.Value]:
    return _extreme_so_far(ctx, x, dim, "max")


@lowering("aten::cummin")
def cummin(ctx: Context, x: ir.Value, dim: int) -> tuple[ir.Value, ir.Value]:
    return _extreme_so_far(ctx, x, dim, "min")


@lowering("aten::logcumsumexp")
def logcumsumexp(ctx: Context, x: ir.Value, dim: int) -> ir.Value:
    """Log Σ exp over each prefix: pairs are combined as max + log(1 + exp(min − max))."""
    if ctx.rank(x) == 0:
        return x
    op, data = ctx.op, _wide(ctx, x, x.dtype or FLOAT)

    def combine(before: ir.Value, now: ir.Value) -> ir.Value:
        high, low = op.Max(before, now), op.Min(before, now)
        # Equal infinities have no difference; they are their own sum.
        gap = op.Where(op.Equal(high, low), ctx.constant(0.0, data.dtype), op.Sub(low, high))
        total = op.Add(high, op.Log(op.Add(op.Exp(gap), 1.0)))
        return op.Where(op.IsInf(high), high, total)

    return ctx.cast(running(ctx, data, ctx.axis(x, dim), combine, -np.inf), x.dtype)
