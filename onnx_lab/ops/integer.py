"""Arithmetic of whole numbers: shifts, greatest common divisor, least common multiple."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_lab.lower.context import Context
from onnx_lab.lower.registry import lowering

INT64, BOOL = ir.DataType.INT64, ir.DataType.BOOL
Operand = Any  # ir.Value or a Python number


def _bits(dtype: ir.DataType) -> int:
    return int(dtype.itemsize * 8)


def _powers(ctx: Context, amount: ir.Value, highest: int) -> ir.Value:
    """2 to the power of ``amount``, which is brought into 0 to ``highest``."""
    table = ctx.constant(np.left_shift(np.ones(highest + 1, np.int64), np.arange(highest + 1)))
    inside = ctx.op.Clip(amount, ctx.constant(np.asarray(0)), ctx.constant(np.asarray(highest)))
    made: ir.Value = ctx.op.Gather(table, inside)
    made.shape = amount.shape
    return made


def _operands(ctx: Context, x: Operand, amount: Operand) -> tuple[ir.DataType, ir.Value, ir.Value]:
    one, other = ctx.promote(x, amount)
    dtype = one.dtype or INT64
    if dtype.is_floating_point() or dtype == BOOL:
        ctx.unsupported("self", dtype, "shift whole numbers")
    return dtype, ctx.cast(one, INT64), ctx.cast(other, INT64)


def _outside(ctx: Context, amount: ir.Value, bits: int) -> ir.Value:
    """Where the shift is negative or shifts everything out."""
    return ctx.op.Or(ctx.op.Less(amount, 0), ctx.op.GreaterOrEqual(amount, bits))


@lowering("aten::bitwise_left_shift.Tensor", "aten::bitwise_left_shift.Tensor_Scalar")
@lowering("aten::bitwise_left_shift.Scalar_Tensor", "aten::__lshift__.Tensor", "aten::__lshift__.Scalar")
def left_shift(ctx: Context, x: Operand, other: Operand) -> ir.Value:
    """X · 2ⁿ modulo 2^bits; 0 for shifts out of range, as torch defines it."""
    dtype, value, shift = _operands(ctx, x, other)
    moved = ctx.op.Mul(value, _powers(ctx, shift, 63))
    zero = ctx.constant(np.asarray(0))
    return ctx.cast(ctx.op.Where(_outside(ctx, shift, _bits(dtype)), zero, moved), dtype)


@lowering("aten::bitwise_right_shift.Tensor", "aten::bitwise_right_shift.Tensor_Scalar")
@lowering("aten::bitwise_right_shift.Scalar_Tensor", "aten::__rshift__.Tensor", "aten::__rshift__.Scalar")
def right_shift(ctx: Context, x: Operand, other: Operand) -> ir.Value:
    """⌊x / 2ⁿ⌋; for shifts out of range only the sign is left, as torch defines it."""
    op = ctx.op
    dtype, value, shift = _operands(ctx, x, other)
    bits = _bits(dtype)
    power = _powers(ctx, shift, 62)
    moved = op.Div(op.Sub(value, op.Mod(value, power)), power)
    sign = op.Where(op.Less(value, 0), ctx.constant(np.asarray(-1)), ctx.constant(np.asarray(0)))
    # 2⁶³ is no int64: a shift by 63 leaves the sign, too.
    return ctx.cast(op.Where(_outside(ctx, shift, min(bits, 63)), sign, moved), dtype)


def _common_divisor(ctx: Context, x: ir.Value, y: ir.Value) -> ir.Value:
    """Euclid's algorithm on all elements at once, until every remainder is 0."""
    op = ctx.op
    x, y = op.Abs(x), op.Abs(y)
    sizes = op.Shape(op.Add(x, y))
    shape = ir.Shape([None] * max(ctx.rank(x), ctx.rank(y)))
    start = [op.Expand(x, sizes), op.Expand(y, sizes)]
    states = [ir.Value(name=name, type=x.type, shape=shape) for name in ("larger", "smaller")]
    turn = ir.Value(name="turn", type=ir.TensorType(INT64), shape=ir.Shape([]))
    going = ir.Value(name="going", type=ir.TensorType(BOOL), shape=ir.Shape([]))

    def some(y: ir.Value) -> ir.Value:
        return ctx.cast(op.ReduceSum(ctx.cast(op.Not(op.Equal(y, 0)), INT64), None, keepdims=0), BOOL)

    def once() -> list[ir.Value]:
        a, b = states
        done = op.Equal(b, 0)
        rest = op.Mod(a, op.Where(done, ctx.constant(np.asarray(1)), b))
        following = op.Where(done, b, rest)
        return [some(following), op.Where(done, a, b), following]

    body = ctx.loop_body([turn, going, *states], once, "euclid")
    found, _ = op.Loop(None, some(start[1]), *start, body=body, outputs=2)
    found.type, found.shape = x.type, shape
    return found


@lowering("aten::gcd")
def gcd(ctx: Context, x: ir.Value, other: ir.Value) -> ir.Value:
    one, two = (ctx.cast(value, INT64) for value in ctx.promote(x, other))
    return ctx.cast(_common_divisor(ctx, one, two), ctx.out_dtype)


@lowering("aten::lcm")
def lcm(ctx: Context, x: ir.Value, other: ir.Value) -> ir.Value:
    """|x / gcd · y|, and 0 where both are 0."""
    op = ctx.op
    one, two = (ctx.cast(value, INT64) for value in ctx.promote(x, other))
    divisor = _common_divisor(ctx, one, two)
    safe = op.Where(op.Equal(divisor, 0), ctx.constant(np.asarray(1)), divisor)
    return ctx.cast(op.Abs(op.Mul(op.Div(one, safe), two)), ctx.out_dtype)
