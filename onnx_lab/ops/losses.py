"""Losses that are operators of their own."""

from __future__ import annotations

import onnx_ir as ir

from onnx_lab.lower.context import Context
from onnx_lab.lower.registry import lowering


def _reduced(ctx: Context, loss: ir.Value, reduction: int) -> ir.Value:
    """0 keeps every element, 1 is their mean (NaN of nothing), 2 their sum."""
    if reduction == 0 or not ctx.rank(loss):
        return ctx.cast(loss, ctx.out_dtype)
    return ctx.cast(ctx.lower("aten::mean" if reduction == 1 else "aten::sum", loss), ctx.out_dtype)


def _positive(ctx: Context, x: ir.Value) -> ir.Value:
    """max(x, 0); NaN stays."""
    return ctx.op.Where(ctx.op.Less(x, ctx.constant(0, x.dtype)), ctx.constant(0, x.dtype), x)


@lowering("aten::margin_ranking_loss")
def margin_ranking_loss(
    ctx: Context, input1: ir.Value, input2: ir.Value, target: ir.Value, margin: float = 0.0, reduction: int = 1
) -> ir.Value:
    """max(0, -y (x₁ - x₂) + margin)."""
    op = ctx.op
    first, second, sign = (ctx.cast(one, ctx.out_dtype) for one in ctx.promote(input1, input2, target))
    loss = op.Add(op.Mul(op.Neg(sign), op.Sub(first, second)), ctx.value(margin, first.dtype))
    return _reduced(ctx, _positive(ctx, loss), reduction)


@lowering("aten::hinge_embedding_loss")
def hinge_embedding_loss(
    ctx: Context, x: ir.Value, target: ir.Value, margin: float = 1.0, reduction: int = 1
) -> ir.Value:
    """X where y ≠ -1 plus max(0, margin - x) where y ≠ 1: both for a y that is neither."""
    op, x = ctx.op, ctx.cast(x, ctx.out_dtype)
    zero = ctx.constant(0, x.dtype)
    apart = op.Where(op.Equal(target, 1), zero, _positive(ctx, op.Sub(ctx.constant(margin, x.dtype), x)))
    near = op.Where(op.Equal(target, -1), zero, x)
    return _reduced(ctx, op.Add(apart, near), reduction)
