"""Sums, extrema, moments along axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_lab.lower.context import Context
from onnx_lab.lower.registry import lowering

INT64, BOOL = ir.DataType.INT64, ir.DataType.BOOL
Dims = int | Sequence[int] | None


def is_float(x: ir.Value) -> bool:
    return x.dtype is not None and x.dtype.is_floating_point()


def reduce(ctx: Context, op_type: str, x: ir.Value, dim: Dims, keepdim: bool) -> ir.Value:
    """One Reduce node over torch dims; none given means all."""
    if ctx.rank(x) == 0:
        return x if op_type != "ReduceSumSquare" else ctx.op.Mul(x, x)
    return getattr(ctx.op, op_type)(x, ctx.axes(x, dim), keepdims=int(keepdim))


@lowering("aten::sum", "aten::sum.dim_IntList")
def sum_(
    ctx: Context, x: ir.Value, dim: Dims = None, keepdim: bool = False, *, dtype: ir.DataType | None = None
) -> ir.Value:
    """Σ over dim; integers and bools accumulate in int64."""
    return reduce(ctx, "ReduceSum", ctx.cast(x, ctx.out_dtype), dim, keepdim)


@lowering("aten::nansum")
def nansum(
    ctx: Context, x: ir.Value, dim: Dims = None, keepdim: bool = False, *, dtype: ir.DataType | None = None
) -> ir.Value:
    value = ctx.cast(x, ctx.out_dtype)
    if is_float(value):
        value = ctx.op.Where(ctx.op.IsNaN(value), ctx.constant(0, value.dtype), value)
    return reduce(ctx, "ReduceSum", value, dim, keepdim)


@lowering("aten::mean", "aten::mean.dim")
def mean(
    ctx: Context, x: ir.Value, dim: Dims = None, keepdim: bool = False, *, dtype: ir.DataType | None = None
) -> ir.Value:
    return average(ctx, ctx.cast(x, ctx.out_dtype), dim, keepdim)


def average(ctx: Context, x: ir.Value, dim: Dims, keepdim: bool) -> ir.Value:
    """Mean over torch dims: NaN when they hold no element, where the runtime's ReduceMean gives 0."""
    sizes = [ctx.size(x, axis) for axis in ctx.axis_list(x, dim)]
    known = ctx.known(sizes)
    if known is not None and 0 not in known:
        return reduce(ctx, "ReduceMean", x, dim, keepdim)
    count = ctx.op.ReduceProd(ctx.vector(sizes), [0], keepdims=0)
    return ctx.op.Div(reduce(ctx, "ReduceSum", x, dim, keepdim), ctx.cast(count, x.dtype))


@lowering("aten::prod")
def prod(ctx: Context, x: ir.Value, *, dtype: ir.DataType | None = None) -> ir.Value:
    return reduce(ctx, "ReduceProd", ctx.cast(x, ctx.out_dtype), None, False)


@lowering("aten::prod.dim_int")
def prod_dim(
    ctx: Context, x: ir.Value, dim: int, keepdim: bool = False, *, dtype: ir.DataType | None = None
) -> ir.Value:
    return reduce(ctx, "ReduceProd", ctx.cast(x, ctx.out_dtype), dim, keepdim)


def _extreme(ctx: Context, op_type: str, x: ir.Value, dim: Dims, keepdim: bool) -> ir.Value:
    """Types without a runtime kernel go through a wider one, exactly. NaN spreads, as in torch.

    The runtime's own ReduceMax and ReduceMin may skip a NaN.
    """
    kernels = (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.INT32, INT64, ir.DataType.INT8, ir.DataType.UINT8)
    wide = x
    if x.dtype not in kernels:
        wide = ctx.cast(x, ir.DataType.FLOAT if is_float(x) else ir.DataType.INT32 if x.dtype == BOOL else INT64)
    made = reduce(ctx, op_type, wide, dim, keepdim)
    if is_float(x) and ctx.rank(x):
        spoiled = reduce(ctx, "ReduceMax", ctx.cast(ctx.op.IsNaN(wide), ir.DataType.INT32), dim, keepdim)
        made = ctx.op.Where(ctx.cast(spoiled, BOOL), ctx.constant(float("nan"), made.dtype), made)
    return ctx.cast(made, x.dtype)


@lowering("aten::amax")
def amax(ctx: Context, x: ir.Value, dim: Dims = (), keepdim: bool = False) -> ir.Value:
    return _extreme(ctx, "ReduceMax", x, dim, keepdim)


@lowering("aten::amin")
def amin(ctx: Context, x: ir.Value, dim: Dims = (), keepdim: bool = False) -> ir.Value:
    return _extreme(ctx, "ReduceMin", x, dim, keepdim)


@lowering("aten::max")
def max_(ctx: Context, x: ir.Value) -> ir.Value:
    return _extreme(ctx, "ReduceMax", x, None, False)


@lowering("aten::min")
def min_(ctx: Context, x: ir.Value) -> ir.Value:
    return _extreme(ctx, "ReduceMin", x, None, False)


@lowering("aten::aminmax")
def aminmax(ctx: Context, x: ir.Value, *, dim: int | None = None, keepdim: bool = False) -> tuple[ir.Value, ir.Value]:
    return _extreme(ctx, "ReduceMin", x, dim, keepdim), _extreme(ctx, "ReduceMax", x, dim, keepdim)


def _arg(ctx: Context, op_type: str, x: ir.Value, dim: int | None, keepdim: bool) -> ir.Value:
    """Index of the first extreme element; NaN counts as the most extreme."""
    if ctx.rank(x) == 0:
        return ctx.constant(np.asarray(0))
    data = ctx.flatten(x) if dim is None else x
    axis = 0 if dim is None else ctx.axis(x, dim)
    if is_float(data):
        data = _nan_first(ctx, data, op_type)
    elif data.dtype in (BOOL, ir.DataType.INT16, INT64):
        data = ctx.cast(data, INT64 if data.dtype == INT64 else ir.DataType.INT32)
    found = getattr(ctx.op, op_type)(data, axis=axis, keepdims=int(keepdim and dim is not None))
    if dim is None and keepdim:
        return ctx.reshape(found, [1] * ctx.rank(x))
    return found


def _nan_first(ctx: Context, x: ir.Value, op_type: str) -> ir.Value:
    """Where a row has a NaN, it wins over all numbers: ranked by being NaN, then by value."""
    wide = x if x.dtype in (ir.DataType.FLOAT, ir.DataType.DOUBLE) else ctx.cast(x, ir.DataType.FLOAT)
    best = float("inf") if op_type == "ArgMax" else float("-inf")
    # Infinities of the data would tie with NaN; they are lowered to the largest finite number.
    limit = float(np.finfo(wide.dtype.numpy()).max) * (1 if op_type == "ArgMax" else -1)  # type: ignore[union-attr]
    bounded = ctx.op.Min(wide, limit) if op_type == "ArgMax" else ctx.op.Max(wide, limit)
    return ctx.op.Where(ctx.op.IsNaN(wide), ctx.constant(best, wide.dtype), bounded)


@lowering("aten::argmax")
def argmax(ctx: Context, x: ir.Value, dim: int | None = None, keepdim: bool = False) -> ir.Value:
    return _arg(ctx, "ArgMax", x, dim, keepdim)


@lowering("aten::argmin")
def argmin(ctx: Context, x: ir.Value, dim: int | None = None, keepdim: bool = False) -> ir.Value:
    return _arg(ctx, "ArgMin", x, dim, keepdim)


def _with_index(ctx: Context, name: str, x: ir.Value, dim: int, keepdim: bool) -> tuple[ir.Value, ir.Value]:
    if ctx.rank(x) == 0:
        return x, ctx.constant(np.asarray(0))
    values = _extreme(ctx, f"Reduce{name}", x, dim, keepdim)
    return values, _arg(ctx, f"Arg{name}", x, dim, keepdim) if ctx.used(1) else None  # type: ignore[return-value]


@lowering("aten::max.dim")
def max_dim(ctx: Context, x: ir.Value, dim: int, keepdim: bool = False) -> tuple[ir.Value, ir.Value]:
    return _with_index(ctx, "Max", x, dim, keepdim)


@lowering("aten::min.dim")
def min_dim(ctx: Context, x: ir.Value, dim: int, keepdim: bool = False) -> tuple[ir.Value, ir.Value]:
    return _with_index(ctx, "Min", x, dim, keepdim)


def _any(ctx: Context, x: ir.Value, dim: Dims, keepdim: bool) -> ir.Value:
    """Counted, since an empty sum is right where an empty maximum is not; uint8 gives uint8."""
    truth = ctx.cast(ctx.cast(x, BOOL), INT64)
    return ctx.cast(ctx.cast(reduce(ctx, "ReduceSum", truth, dim, keepdim), BOOL), ctx.out_dtype)


@lowering("aten::any", "aten::any.dim", "aten::any.dims")
def any_(ctx: Context, x: ir.Value, dim: Dims = None, keepdim: bool = False) -> ir.Value:
    return _any(ctx, x, dim, keepdim)


@lowering("aten::all", "aten::all.dim", "aten::all.dims")
def all_(ctx: Context, x: ir.Value, dim: Dims = None, keepdim: bool = False) -> ir.Value:
    false = ctx.cast(ctx.op.Not(ctx.cast(x, BOOL)), INT64)
    none = ctx.op.Not(ctx.cast(reduce(ctx, "ReduceSum", false, dim, keepdim), BOOL))
    return ctx.cast(none, ctx.out_dtype)


@lowering("aten::count_nonzero", "aten::count_nonzero.dim_IntList")
def count_nonzero(ctx: Context, x: ir.Value, dim: Dims = None) -> ir.Value:
    return reduce(ctx, "ReduceSum", ctx.cast(ctx.cast(x, BOOL), INT64), dim, False)


# -- moments --------------------------------------------------------------------------------------------


def variance(ctx: Context, x: ir.Value, dim: Dims, correction: Any, keepdim: bool) -> tuple[ir.Value, ir.Value]:
    """Σ(x - mean)² / max(0, n - correction), and the mean."""
    op = ctx.op
    if ctx.rank(x) == 0:
        data, axes = ctx.reshape(x, [1]), ctx.constant([0])
        keepdim, dim = False, 0
    else:
        data, axes = x, ctx.axes(x, dim)
    mean_ = average(ctx, data, dim, True)
    gap = op.Sub(data, mean_)
    total = op.ReduceSum(op.Mul(gap, gap), axes, keepdims=int(keepdim))
    made = op.Div(total, _freedom(ctx, data, axes, correction))
    return made, mean_ if keepdim else op.Squeeze(mean_, axes)


def _freedom(ctx: Context, x: ir.Value, axes: ir.Value, correction: Any) -> ir.Value:
    """max(0, n - correction) in the type of x."""
    listed = [int(axis) for axis in ctx.op.constants.array(axes)]  # type: ignore[union-attr]
    sizes = [ctx.size(x, axis) for axis in listed]
    lost = 1 if correction is None else correction
    if all(isinstance(size, int) for size in sizes):
        return ctx.constant(float(max(0, int(np.prod(sizes)) - lost)), x.dtype)  # type: ignore[arg-type]
    count = ctx.op.ReduceProd(ctx.vector(sizes), [0], keepdims=0)
    return ctx.op.Max(ctx.op.Sub(ctx.cast(count, x.dtype), float(lost)), 0.0)


@lowering("aten::var.correction")
def var(ctx: Context, x: ir.Value, dim: Dims = None, *, correction: Any = None, keepdim: bool = False) -> ir.Value:
    return variance(ctx, x, dim, correction, keepdim)[0]


@lowering("aten::std.correction")
def std(ctx: Context, x: ir.Value, dim: Dims = None, *, correction: Any = None, keepdim: bool = False) -> ir.Value:
    return ctx.op.Sqrt(variance(ctx, x, dim, correction, keepdim)[0])


@lowering("aten::var_mean.correction")
def var_mean(
    ctx: Context, x: ir.Value, dim: Dims = None, *, correction: Any = None, keepdim: bool = False
) -> tuple[ir.Value, ir.Value]:
    return variance(ctx, x, dim, correction, keepdim)


@lowering("aten::std_mean.correction")
def std_mean(
    ctx: Context, x: ir.Value, dim: Dims = None, *, correction: Any = None, keepdim: bool = False
) -> tuple[ir.Value, ir.Value]:
    spread, average = variance(ctx, x, dim, correction, keepdim)
    return ctx.op.Sqrt(spread), average


@lowering("aten::var_mean")
def var_mean_all(ctx: Context, x: ir.Value, unbiased: bool = True) -> tuple[ir.Value, ir.Value]:
    return variance(ctx, x, None, int(unbiased), False)


@lowering("aten::std_mean")
def std_mean_all(ctx: Context, x: ir.Value, unbiased: bool = True) -> tuple[ir.Value, ir.Value]:
    return std_mean(ctx, x, None, correction=int(unbiased))


@lowering("aten::var_mean.dim")
def var_mean_dim(
    ctx: Context, x: ir.Value, dim: Dims, unbiased: bool = True, keepdim: bool = False
) -> tuple[ir.Value, ir.Value]:
    return variance(ctx, x, dim, int(unbiased), keepdim)


@lowering("aten::std_mean.dim")
def std_mean_dim(
    ctx: Context, x: ir.Value, dim: Dims, unbiased: bool = True, keepdim: bool = False
) -> tuple[ir.Value, ir.Value]:
    return std_mean(ctx, x, dim, correction=int(unbiased), keepdim=keepdim)


@lowering("aten::var")
def var_all(ctx: Context, x: ir.Value, unbiased: bool = True) -> ir.Value:
    return variance(ctx, x, None, int(unbiased), False)[0]


@lowering("aten::std")
def std_all(ctx: Context, x: ir.Value, unbiased: bool = True) -> ir.Value:
    return ctx.op.Sqrt(var_all(ctx, x, unbiased))


@lowering("aten::var.dim")
def var_dim(ctx: Context, x: ir.Value, dim: Dims, unbiased: bool = True, keepdim: bool = False) -> ir.Value:
    return variance(ctx, x, dim, int(unbiased), keepdim)[0]


@lowering("aten::std.dim")
def std_dim(ctx: Context, x: ir.Value, dim: Dims, unbiased: bool = True, keepdim: bool = False) -> ir.Value:
    return ctx.op.Sqrt(var_dim(ctx, x, dim, unbiased, keepdim))


@lowering("aten::logsumexp")
def logsumexp(ctx: Context, x: ir.Value, dim: Dims, keepdim: bool = False) -> ir.Value:
    """From the largest element; an infinite one is its own result."""
    op, value = ctx.op, ctx.cast(x, ctx.out_dtype)
    if ctx.rank(x) == 0:
        return value
    axes = ctx.axes(value, dim)
    high = op.ReduceMax(value, axes, keepdims=1)
    high = op.Where(op.IsInf(high), ctx.constant(0.0, high.dtype), high)
    total = op.Log(op.ReduceSum(op.Exp(op.Sub(value, high)), axes, keepdims=1))
    made = op.Add(total, high)
    return made if keepdim else op.Squeeze(made, axes)


@lowering("aten::linalg_vector_norm")
def vector_norm(
    ctx: Context,
    x: ir.Value,
    ord: Any = 2,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: ir.DataType | None = None,
) -> ir.Value:
    return norm(ctx, ctx.cast(x, ctx.out_dtype), ord, dim, keepdim)


def norm(ctx: Context, x: ir.Value, order: Any, dim: Dims, keepdim: bool) -> ir.Value:
    """(Σ|x|^p)^(1/p) and its limits."""
    op = ctx.op
    if ctx.rank(x) == 0:
        return op.Abs(x) if order != 0 else ctx.cast(ctx.cast(x, BOOL), x.dtype)
    if order in (1, 2):
        return reduce(ctx, f"ReduceL{int(order)}", x, dim, keepdim)
    if order == 0:
        return reduce(ctx, "ReduceSum", ctx.cast(ctx.cast(x, BOOL), x.dtype), dim, keepdim)
    if order in (float("inf"), float("-inf")):
        return _extreme(ctx, "ReduceMax" if order > 0 else "ReduceMin", op.Abs(x), dim, keepdim)
    total = reduce(ctx, "ReduceSum", op.Pow(op.Abs(x), float(order)), dim, keepdim)
    return op.Pow(total, 1.0 / order)


@lowering("aten::norm.Scalar")
def norm_scalar(ctx: Context, x: ir.Value, p: Any = 2) -> ir.Value:
    return norm(ctx, x, p, None, False)


@lowering("aten::norm.ScalarOpt_dim")
def norm_dim(ctx: Context, x: ir.Value, p: Any, dim: Dims, keepdim: bool = False) -> ir.Value:
    return norm(ctx, x, 2 if p is None else p, dim, keepdim)
