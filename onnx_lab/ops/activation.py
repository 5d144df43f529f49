"""Activation functions."""

from __future__ import annotations

import math
from typing import Any

import onnx_ir as ir

from onnx_lab.lower.context import Context
from onnx_lab.lower.registry import lowering


@lowering("aten::relu")
def relu(ctx: Context, x: ir.Value) -> ir.Value:
    if x.dtype == ir.DataType.INT64:  # for which the runtime has no Relu
        return ctx.op.Max(x, 0)
    return ctx.op.Relu(x)


@lowering("aten::relu6")
def relu6(ctx: Context, x: ir.Value) -> ir.Value:
    return ctx.op.Clip(x, 0, 6)


@lowering("aten::gelu", since=20)
def gelu(ctx: Context, x: ir.Value, *, approximate: str = "none") -> ir.Value:
    return ctx.op.Gelu(x, approximate=approximate)


@lowering("aten::gelu")
def gelu_spelled(ctx: Context, x: ir.Value, *, approximate: str = "none") -> ir.Value:
    """x/2 · (1 + erf(x/√2)), or its tanh approximation."""
    op = ctx.op
    if approximate == "tanh":
        cubic = op.Mul(op.Mul(op.Mul(x, x), x), 0.044715)
        bent = op.Tanh(op.Mul(op.Add(x, cubic), math.sqrt(2 / math.pi)))
    else:
        bent = op.Erf(op.Mul(x, math.sqrt(0.5)))
    return op.Mul(op.Mul(x, 0.5), op.Add(bent, 1.0))


@lowering("aten::silu")
def silu(ctx: Context, x: ir.Value) -> ir.Value:
    """X · σ(x): the runtime fuses it, and is slower on the Swish operator of opset 24."""
    return ctx.op.Mul(x, ctx.op.Sigmoid(x))


@lowering("aten::elu")
def elu(ctx: Context, x: ir.Value, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> ir.Value:
    if scale == 1 and input_scale == 1:
        return ctx.op.Elu(x, alpha=float(alpha))
    op = ctx.op
    low = op.Mul(op.Sub(op.Exp(op.Mul(x, float(input_scale))), 1.0), float(alpha * scale))
    return op.Where(op.Greater(x, 0.0), op.Mul(x, float(scale)), low)


@lowering("aten::celu")
def celu(ctx: Context, x: ir.Value, alpha: Any = 1.0) -> ir.Value:
    """max(0, x) + min(0, α(e^(x/α) - 1)); Celu has no kernel but for float."""
    low = ctx.op.Mul(ctx.op.Sub(ctx.op.Exp(ctx.op.Div(x, float(alpha))), 1.0), float(alpha))
    return ctx.op.Where(ctx.op.Greater(x, 0.0), x, low)


@lowering("aten::selu")
def selu(ctx: Context, x: ir.Value) -> ir.Value:
    return ctx.op.Selu(x)


@lowering("aten::leaky_relu")
def leaky_relu(ctx: Context, x: ir.Value, negative_slope: Any = 0.01) -> ir.Value:
    return ctx.op.LeakyRelu(x, alpha=float(negative_slope))


@lowering("aten::prelu", "aten::_prelu_kernel")
def prelu(ctx: Context, x: ir.Value, weight: ir.Value) -> ir.Value:
    """One slope per channel (axis 1), or one for all."""
    rank = ctx.rank(x)
    slope = weight
    if ctx.rank(weight) == 1 and rank != 1:
        slope = ctx.reshape(weight, [] if ctx.size(weight, 0) == 1 else [-1, *[1] * (rank - 2)])
    return ctx.op.Where(ctx.op.Less(x, 0.0), ctx.op.Mul(x, slope), x)


@lowering("aten::hardtanh")
def hardtanh(ctx: Context, x: ir.Value, min_val: Any = -1, max_val: Any = 1) -> ir.Value:
    return ctx.op.Clip(x, ctx.constant(min_val, x.dtype), ctx.constant(max_val, x.dtype))


@lowering("aten::hardsigmoid")
def hardsigmoid(ctx: Context, x: ir.Value) -> ir.Value:
    return ctx.op.HardSigmoid(x, alpha=1 / 6, beta=0.5)


@lowering("aten::hardswish")
def hardswish(ctx: Context, x: ir.Value) -> ir.Value:
    return ctx.op.HardSwish(x)


@lowering("aten::mish", since=18)
def mish(ctx: Context, x: ir.Value) -> ir.Value:
    return ctx.op.Mul(x, ctx.op.Tanh(softplus(ctx, x)))


@lowering("aten::softplus")
def softplus(ctx: Context, x: ir.Value, beta: Any = 1, threshold: Any = 20) -> ir.Value:
    """log(1 + e^(βx)) / β, linear above the threshold."""
    op = ctx.op
    scaled = x if beta == 1 else op.Mul(x, float(beta))
    soft = op.Softplus(scaled)
    soft = soft if beta == 1 else op.Div(soft, float(beta))
    return op.Where(op.Greater(scaled, float(threshold)), x, soft)


@lowering("aten::log_sigmoid")
def log_sigmoid(ctx: Context, x: ir.Value) -> ir.Value:
    """min(0, x) - log(1 + e^-|x|): neither end overflows."""
    op = ctx.op
    return op.Sub(op.Min(x, 0.0), op.Softplus(op.Neg(op.Abs(x))))


@lowering("aten::threshold")
def threshold(ctx: Context, x: ir.Value, threshold: Any, value: Any) -> ir.Value:
    limit, other = ctx.constant(threshold, x.dtype), ctx.constant(value, x.dtype)
    return ctx.op.Where(ctx.op.LessOrEqual(x, limit), other, x)


@lowering("aten::hardshrink")
def hardshrink(ctx: Context, x: ir.Value, lambd: Any = 0.5) -> ir.Value:
    inside = ctx.op.LessOrEqual(ctx.op.Abs(x), float(lambd))
    return ctx.op.Where(inside, ctx.constant(0.0, x.dtype), x)


@lowering("aten::softshrink")
def softshrink(ctx: Context, x: ir.Value, lambd: Any = 0.5) -> ir.Value:
    """X drawn toward zero by λ; NaN stays."""
    shrunk = ctx.op.Sub(x, ctx.op.Mul(ctx.op.Sign(x), float(lambd)))
    inside = ctx.op.LessOrEqual(ctx.op.Abs(x), float(lambd))
    return ctx.op.Where(inside, ctx.op.Mul(x, 0.0), shrunk)


@lowering("aten::glu")
def glu(ctx: Context, x: ir.Value, dim: int = -1) -> ir.Value:
    first, second = ctx.op.Split(x, axis=ctx.axis(x, dim), num_outputs=2, outputs=2)
    return ctx.op.Mul(first, ctx.op.Sigmoid(second))


@lowering("aten::logit", "aten::special_logit")
def logit(ctx: Context, x: ir.Value, eps: float | None = None) -> ir.Value:
    value = ctx.cast(x, ctx.out_dtype)
    if eps is not None:
        value = ctx.op.Clip(value, ctx.constant(eps, value.dtype), ctx.constant(1 - eps, value.dtype))
    return ctx.op.Log(ctx.op.Div(value, ctx.op.Sub(1.0, value)))


def _softmax(ctx: Context, op_type: str, x: ir.Value, dim: int) -> ir.Value:
    value = ctx.cast(x, ctx.out_dtype)
    if ctx.rank(x) == 0:
        return ctx.reshape(getattr(ctx.op, op_type)(ctx.reshape(value, [1]), axis=0), [])
    return getattr(ctx.op, op_type)(value, axis=ctx.axis(x, dim))


@lowering("aten::softmax.int", "aten::special_softmax")
def softmax(ctx: Context, x: ir.Value, dim: int, dtype: ir.DataType | None = None) -> ir.Value:
    return _softmax(ctx, "Softmax", x, dim)


@lowering("aten::_softmax")
def softmax_plain(ctx: Context, x: ir.Value, dim: int, half_to_float: bool) -> ir.Value:
    return _softmax(ctx, "Softmax", x, dim)


@lowering("aten::_safe_softmax")
def safe_softmax(ctx: Context, x: ir.Value, dim: int, dtype: ir.DataType | None = None) -> ir.Value:
    """A row of minus infinities gives zeros."""
    made = _softmax(ctx, "Softmax", x, dim)
    return ctx.op.Where(ctx.op.IsNaN(made), ctx.constant(0.0, made.dtype), made)


@lowering("aten::log_softmax.int", "aten::special_log_softmax")
def log_softmax(ctx: Context, x: ir.Value, dim: int, dtype: ir.DataType | None = None) -> ir.Value:
    return _softmax(ctx, "LogSoftmax", x, dim)


@lowering("aten::_log_softmax")
def log_softmax_plain(ctx: Context, x: ir.Value, dim: int, half_to_float: bool) -> ir.Value:
    return _softmax(ctx, "LogSoftmax", x, dim)
