"""Arithmetic on symbolic sizes: 0-D INT64 values made by ordinary calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir as ir

from onnx_lab.lower.context import Context, Size
from onnx_lab.lower.registry import lowering

Number = Any  # int, float, bool or a 0-D value
INT64, DOUBLE, BOOL = ir.DataType.INT64, ir.DataType.DOUBLE, ir.DataType.BOOL


@lowering("aten::sym_size.int")
def sym_size(ctx: Context, x: ir.Value, dim: int) -> Size:
    return ctx.size(x, dim)


@lowering("aten::sym_numel")
def sym_numel(ctx: Context, x: ir.Value) -> ir.Value:
    return ctx.op.Size(x)


@lowering("aten::item", "aten::_local_scalar_dense")
def item(ctx: Context, x: ir.Value) -> ir.Value:
    """The one element as a number: ints as INT64, floats as DOUBLE."""
    return ctx.cast(ctx.reshape(x, []), ctx.out_dtype)


def _pair(ctx: Context, a: Number, b: Number) -> list[ir.Value]:
    return ctx.promote(a, b)


ARITHMETIC = {"_operator::add": "Add", "_operator::sub": "Sub", "_operator::mul": "Mul"}
COMPARISON = {
    "_operator::eq": "Equal",
    "_operator::lt": "Less",
    "_operator::le": "LessOrEqual",
    "_operator::gt": "Greater",
    "_operator::ge": "GreaterOrEqual",
}


def _binary(op_type: str) -> Callable[..., ir.Value]:
    def binary(ctx: Context, a: Number, b: Number) -> ir.Value:
        return getattr(ctx.op, op_type)(*_pair(ctx, a, b))

    return binary


for key, op_type in (ARITHMETIC | COMPARISON).items():
    lowering(key)(_binary(op_type))


@lowering("_operator::ne")
def ne(ctx: Context, a: Number, b: Number) -> ir.Value:
    return ctx.op.Not(ctx.op.Equal(*_pair(ctx, a, b)))


@lowering("_operator::neg")
def neg(ctx: Context, a: ir.Value) -> ir.Value:
    return ctx.op.Neg(a)


@lowering("_operator::floordiv")
def floordiv(ctx: Context, a: Number, b: Number) -> ir.Value:
    """Rounds down; a plain division is the same when no operand is negative, as sizes are."""
    x, y = _pair(ctx, a, b)
    if x.dtype == DOUBLE:
        return ctx.op.Floor(ctx.op.Div(x, y))
    quotient = ctx.op.Div(x, y)
    rest = ctx.op.Sub(x, ctx.op.Mul(quotient, y))
    inexact = ctx.op.Not(ctx.op.Equal(rest, 0))
    opposite = ctx.op.Less(ctx.op.Mul(ctx.op.Sign(x), ctx.op.Sign(y)), 0)
    return ctx.op.Sub(quotient, ctx.cast(ctx.op.And(inexact, opposite), INT64))


@lowering("_operator::mod")
def mod(ctx: Context, a: Number, b: Number) -> ir.Value:
    """Python's remainder has the sign of the divisor, as ONNX Mod has for integers."""
    x, y = _pair(ctx, a, b)
    if x.dtype != DOUBLE:
        return ctx.op.Mod(x, y)
    rest = ctx.op.Mod(x, y, fmod=1)
    # C's remainder has the sign of the dividend.
    other_sign = ctx.op.Less(ctx.op.Mul(rest, y), 0.0)
    return ctx.op.Where(other_sign, ctx.op.Add(rest, y), rest)


@lowering("_operator::truediv", "torch::sym_int_truediv")
def truediv(ctx: Context, a: Number, b: Number) -> ir.Value:
    return ctx.op.Div(ctx.value(a, DOUBLE), ctx.value(b, DOUBLE))


@lowering("_operator::pow")
def pow_(ctx: Context, a: Number, b: Number) -> ir.Value:
    x, y = _pair(ctx, a, b)
    return ctx.op.Pow(x, y)


@lowering("_operator::and")
def and_(ctx: Context, a: Number, b: Number) -> ir.Value:
    return ctx.op.And(ctx.value(a, BOOL), ctx.value(b, BOOL))


@lowering("_operator::or")
def or_(ctx: Context, a: Number, b: Number) -> ir.Value:
    return ctx.op.Or(ctx.value(a, BOOL), ctx.value(b, BOOL))


@lowering("torch::sym_not", "_operator::not")
def not_(ctx: Context, a: Number) -> ir.Value:
    return ctx.op.Not(ctx.value(a, BOOL))


@lowering("torch::sym_max")
def sym_max(ctx: Context, a: Number, b: Number) -> ir.Value:
    return ctx.op.Max(*_pair(ctx, a, b))


@lowering("torch::sym_min")
def sym_min(ctx: Context, a: Number, b: Number) -> ir.Value:
    return ctx.op.Min(*_pair(ctx, a, b))


@lowering("torch::sym_float")
def sym_float(ctx: Context, a: Number) -> ir.Value:
    return ctx.value(a, DOUBLE)


@lowering("torch::sym_int", "math::trunc")
def sym_int(ctx: Context, a: Number) -> ir.Value:
    return ctx.value(a, INT64)


@lowering("math::floor")
def floor(ctx: Context, a: Number) -> ir.Value:
    return a if isinstance(a, int) else ctx.cast(ctx.op.Floor(ctx.value(a, DOUBLE)), INT64)  # type: ignore[return-value]


@lowering("math::ceil")
def ceil(ctx: Context, a: Number) -> ir.Value:
    return ctx.cast(ctx.op.Ceil(ctx.value(a, DOUBLE)), INT64)


@lowering("torch::sym_sqrt", "math::sqrt")
def sym_sqrt(ctx: Context, a: Number) -> ir.Value:
    return ctx.op.Sqrt(ctx.value(a, DOUBLE))


@lowering("torch::sym_ite")
def sym_ite(ctx: Context, a: Number, b: Number, c: Number) -> ir.Value:
    yes, no = _pair(ctx, b, c)
    return ctx.op.Where(ctx.value(a, BOOL), yes, no)


@lowering("torch::sym_sum")
def sym_sum(ctx: Context, args: Any) -> ir.Value:
    total = ctx.value(args[0], INT64)
    for one in args[1:]:
        total = ctx.op.Add(total, ctx.value(one, INT64))
    return total
