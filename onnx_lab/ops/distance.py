"""Distances between rows."""

from __future__ import annotations

import math

import onnx_ir as ir

from onnx_lab.lower.context import Context
from onnx_lab.lower.registry import lowering


@lowering("aten::cdist", "aten::_cdist_forward")
def cdist(ctx: Context, x1: ir.Value, x2: ir.Value, p: float = 2.0, compute_mode: int | None = None) -> ir.Value:
    """‖x1[..., i, :] − x2[..., j, :]‖ₚ, from the differences themselves: exact also for close rows."""
    difference = ctx.op.Abs(ctx.op.Sub(ctx.unsqueeze(x1, -2), ctx.unsqueeze(x2, -3)))
    return _norm(ctx, difference, p)


@lowering("aten::_euclidean_dist")
def euclidean_dist(ctx: Context, x1: ir.Value, x2: ir.Value) -> ir.Value:
    return cdist(ctx, x1, x2)


def _norm(ctx: Context, size: ir.Value, p: float) -> ir.Value:
    """The p-norm of non-negative numbers along the last axis."""
    op, axes = ctx.op, [-1]
    if p == 2:
        return op.ReduceL2(size, axes, keepdims=0)
    if p == 1:
        return op.ReduceSum(size, axes, keepdims=0)
    if p == 0:
        return op.ReduceSum(ctx.cast(op.Greater(size, 0.0), size.dtype), axes, keepdims=0)
    if p == math.inf:
        return op.ReduceMax(size, axes, keepdims=0)
    return op.Pow(op.ReduceSum(op.Pow(size, float(p)), axes, keepdims=0), 1 / p)
