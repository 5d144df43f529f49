"""Layers that draw random numbers in training mode: dropout in all its forms, randomized slopes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_lab.lower.context import Context
from onnx_lab.lower.registry import lowering
from onnx_lab.ops.random import Form, events, uniform

FLOAT, DOUBLE, BOOL = ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.BOOL


def _zeros(ctx: Context, x: ir.Value) -> ir.Value:
    """Zero times x: NaN where x is no number."""
    return ctx.op.Mul(x, 0.0)


def _dropped(ctx: Context, x: ir.Value, p: float) -> tuple[ir.Value, ir.Value]:
    """Dropout in training mode: the kept elements over 1 - p, and which they are.

    Only the mask of ONNX's Dropout is read: ONNX Runtime removes a Dropout whose mask nobody reads, in training
    mode, too.
    """
    _, kept = ctx.op.Dropout(x, ctx.constant(p, FLOAT), ctx.constant(True, BOOL), outputs=2)
    kept.shape = x.shape
    factor = ctx.op.Mul(ctx.cast(kept, x.dtype), ctx.constant(1 / (1 - p), x.dtype))
    return ctx.op.Mul(x, factor), kept


@lowering("aten::dropout")
def dropout(ctx: Context, input: ir.Value, p: float, train: bool) -> ir.Value:
    """Nothing in eval mode."""
    if not train or p == 0:
        return input
    return _zeros(ctx, input) if p == 1 else _dropped(ctx, input, p)[0]


@lowering("aten::native_dropout")
def native_dropout(ctx: Context, input: ir.Value, p: float, train: bool | None) -> tuple[ir.Value, ir.Value]:
    """No mode means training."""
    if train is False or p == 0:
        return input, ctx.full(ctx.sizes(input), 1, BOOL)
    if p == 1:
        return _zeros(ctx, input), ctx.full(ctx.sizes(input), 0, BOOL)
    return _dropped(ctx, input, p)


def _by_channel(ctx: Context, x: ir.Value) -> Form:
    """One number for each channel of each sample."""
    if ctx.rank(x) < 2:
        ctx.unsupported("input", f"rank {ctx.rank(x)}", "channels need two dims at least")
    ones = [1] * (ctx.rank(x) - 2)
    sizes = ctx.shape(x, 0, 2)
    vector = ctx.op.Concat(sizes, ctx.constant(np.asarray(ones, np.int64)), axis=0) if ones else sizes
    return Form(vector, (*list(x.shape or ())[:2], *ones))


def _noisy(ctx: Context, x: ir.Value, form: Form, p: float, alpha: bool) -> ir.Value:
    """X · a + b where it is kept; elsewhere 0, or the value that keeps mean and variance of SELU's outputs.

    With α' = -1.7580993… (minus SELU's λα) and q = 1 - p: a = (q + α'² q (1 - q))^-½, b = -a (1 - q) α', and
    what is dropped becomes a α' + b (Klambauer et al. 2017, section 2, "new dropout technique").
    """
    op, wide = ctx.op, DOUBLE if x.dtype == DOUBLE else FLOAT
    kept = events(ctx, form, 1 - p)
    value = ctx.cast(x, wide)
    if not alpha:
        factor = op.Mul(ctx.cast(kept, wide), 1 / (1 - p))
        return ctx.cast(op.Mul(value, factor), x.dtype)
    low = -1.0507009873554805 * 1.6732632423543772
    a = 1 / ((1 - p) * (1 + low * low * p)) ** 0.5
    b = -a * p * low
    factor = op.Mul(ctx.cast(kept, wide), a)
    shift = op.Where(kept, ctx.constant(b, wide), ctx.constant(a * low + b, wide))
    return ctx.cast(op.Add(op.Mul(value, factor), shift), x.dtype)


@lowering("aten::feature_dropout")
def feature_dropout(ctx: Context, input: ir.Value, p: float, train: bool) -> ir.Value:
    if not train or p == 0:
        return input
    return _zeros(ctx, input) if p == 1 else _noisy(ctx, input, _by_channel(ctx, input), p, alpha=False)


@lowering("aten::alpha_dropout")
def alpha_dropout(ctx: Context, input: ir.Value, p: float, train: bool) -> ir.Value:
    if not train or p == 0:
        return input
    return _zeros(ctx, input) if p == 1 else _noisy(ctx, input, Form.like(ctx, input), p, alpha=True)


@lowering("aten::feature_alpha_dropout")
def feature_alpha_dropout(ctx: Context, input: ir.Value, p: float, train: bool) -> ir.Value:
    if not train or p == 0:
        return input
    return _zeros(ctx, input) if p == 1 else _noisy(ctx, input, _by_channel(ctx, input), p, alpha=True)


def _slopes(ctx: Context, x: ir.Value, lower: Any, upper: Any) -> tuple[ir.Value, ir.Value]:
    """Negative elements times a slope drawn for each; the slopes, 1 where there is none."""
    drawn = uniform(ctx, Form.like(ctx, x), x.dtype or FLOAT)
    slope = ctx.op.Add(ctx.op.Mul(drawn, float(upper - lower)), float(lower))
    slope = ctx.op.Where(ctx.op.LessOrEqual(x, 0.0), ctx.cast(slope, x.dtype), ctx.constant(1.0, x.dtype))
    return ctx.op.Mul(x, slope), slope


@lowering("aten::rrelu")
def rrelu(
    ctx: Context,
    x: ir.Value,
    lower: Any = 0.125,
    upper: Any = 0.3333333333333333,
    training: bool = False,
    generator: None = None,
) -> ir.Value:
    """The slope of negative elements: random in training mode, else the middle of its range."""
    if training:
        return _slopes(ctx, x, lower, upper)[0]
    return ctx.op.LeakyRelu(x, alpha=float(lower + upper) / 2)


@lowering("aten::rrelu_with_noise_functional")
def rrelu_with_noise(
    ctx: Context,
    x: ir.Value,
    noise: ir.Value,
    lower: Any = 0.125,
    upper: Any = 0.3333333333333333,
    training: bool = False,
    generator: None = None,
) -> tuple[ir.Value, ir.Value]:
    if training:
        return _slopes(ctx, x, lower, upper)
    return ctx.op.LeakyRelu(x, alpha=float(lower + upper) / 2), noise
