"""Powers: of floats by one operator, of whole numbers by repeated squaring, which wraps around as torch does."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_lab.lower.context import Context
from onnx_lab.lower.registry import lowering

INT64, BOOL = ir.DataType.INT64, ir.DataType.BOOL
Operand = Any  # ir.Value or a Python number


def _whole(ctx: Context) -> bool:
    return not ctx.out_dtype.is_floating_point()


@lowering("aten::pow.Tensor_Tensor", "aten::pow.Scalar")
def pow_(ctx: Context, x: Operand, exponent: Operand) -> ir.Value:
    if _whole(ctx):
        return ctx.cast(_whole_power(ctx, ctx.value(x, INT64), ctx.value(exponent, INT64)), ctx.out_dtype)
    return ctx.op.Pow(ctx.value(x, ctx.out_dtype), ctx.value(exponent, ctx.out_dtype))


@lowering("aten::pow.Tensor_Scalar")
def pow_scalar(ctx: Context, x: ir.Value, exponent: Operand) -> ir.Value:
    """Small whole powers and roots have operators of their own that are faster."""
    value = ctx.cast(x, ctx.out_dtype)
    if isinstance(exponent, ir.Value):
        return pow_(ctx, x, exponent)
    if exponent == 1:
        return value
    if exponent == 2:
        return ctx.op.Mul(value, value)
    if exponent == 3:
        return ctx.op.Mul(ctx.op.Mul(value, value), value)
    if _whole(ctx):
        made = _fixed_power(ctx, ctx.cast(x, INT64), int(exponent))
        return ctx.cast(made, ctx.out_dtype)
    if exponent in (0.5, -0.5, -1):
        root = value if exponent == -1 else ctx.op.Sqrt(value)
        return ctx.op.Reciprocal(root) if exponent < 0 else root
    return ctx.op.Pow(value, ctx.value(exponent, ctx.out_dtype))


@lowering("aten::float_power.Tensor_Scalar", "aten::float_power.Tensor_Tensor", "aten::float_power.Scalar")
def float_power(ctx: Context, x: Operand, exponent: Operand) -> ir.Value:
    return ctx.op.Pow(ctx.value(x, ctx.out_dtype), ctx.value(exponent, ctx.out_dtype))


def _one(ctx: Context) -> ir.Value:
    return ctx.constant(np.asarray(1))


def _fixed_power(ctx: Context, base: ir.Value, exponent: int) -> ir.Value:
    """base^exponent by squaring; for a negative exponent only 1 and -1 have a whole result, others give 0."""
    op = ctx.op
    if exponent < 0:
        unit = op.Where(op.Equal(base, -1), ctx.constant(np.asarray(-1 if exponent % 2 else 1)), _zero(ctx))
        return op.Where(op.Equal(base, 1), _one(ctx), unit)
    result = op.Add(op.Mul(base, 0), 1)
    while exponent:
        if exponent % 2:
            result = op.Mul(result, base)
        base, exponent = op.Mul(base, base), exponent // 2
    return result


def _zero(ctx: Context) -> ir.Value:
    return ctx.constant(np.asarray(0))


def _whole_power(ctx: Context, base: ir.Value, exponent: ir.Value) -> ir.Value:
    """Squaring on all elements at once, as many turns as the greatest exponent has bits."""
    op = ctx.op
    rank = max(ctx.rank(base), ctx.rank(exponent))
    whole = op.Shape(op.Add(base, exponent))
    start = [op.Expand(one, whole) for one in (_one(ctx), base, op.Max(exponent, _zero(ctx)))]
    names = ("result", "square", "rest")
    states = [ir.Value(name=name, type=ir.TensorType(INT64), shape=ir.Shape([None] * rank)) for name in names]
    turn = ir.Value(name="turn", type=ir.TensorType(INT64), shape=ir.Shape([]))
    going = ir.Value(name="going", type=ir.TensorType(BOOL), shape=ir.Shape([]))

    def some(rest: ir.Value) -> ir.Value:
        return ctx.cast(op.ReduceSum(ctx.cast(op.Greater(rest, 0), INT64), None, keepdims=0), BOOL)

    def once() -> list[ir.Value]:
        result, square, rest = states
        odd = op.Equal(op.Mod(rest, 2), 1)
        following = op.Div(rest, 2)
        return [some(following), op.Where(odd, op.Mul(result, square), result), op.Mul(square, square), following]

    body = ctx.loop_body([turn, going, *states], once, "squaring")
    made, _, _ = op.Loop(None, some(start[2]), *start, body=body, outputs=3)
    made.type, made.shape = ir.TensorType(INT64), ir.Shape([None] * rank)
    sign = op.Where(op.Equal(op.Mod(exponent, 2), 0), _one(ctx), ctx.constant(np.asarray(-1)))
    unit = op.Where(op.Equal(base, -1), sign, _zero(ctx))
    inverse = op.Where(op.Equal(base, 1), _one(ctx), unit)
    return op.Where(op.Less(exponent, 0), inverse, made)
