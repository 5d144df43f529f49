"""The error function's family, computed in double precision: inverse, scaled, normal distribution."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import onnx_ir as ir

from onnx_lab.lower.context import Context
from onnx_lab.lower.double_precision import ERFC_SERIES
from onnx_lab.lower.registry import lowering

DOUBLE = ir.DataType.DOUBLE
INFINITY, NAN = float("inf"), float("nan")


def number(ctx: Context, value: float) -> ir.Value:
    return ctx.constant(value, DOUBLE)


def in_double(function: Callable[..., ir.Value]) -> Callable[..., ir.Value]:
    """A lowering of one tensor that is computed in double precision; the result has the captured type."""

    def lowered(ctx: Context, x: ir.Value) -> ir.Value:
        return ctx.cast(function(ctx, ctx.cast(x, DOUBLE)), ctx.out_dtype)

    return lowered


def series(ctx: Context, u: ir.Value, coefficients: Sequence[float]) -> ir.Value:
    """Σ c_k T_k(u) by Clenshaw's recurrence, for u from −1 to 1."""
    op = ctx.op
    later: Any = number(ctx, 0.0)
    last: Any = number(ctx, 0.0)
    double = op.Mul(u, 2.0)
    for coefficient in reversed(coefficients[1:]):
        later, last = op.Add(op.Sub(op.Mul(double, later), last), coefficient), later
    return op.Add(op.Sub(op.Mul(u, later), last), coefficients[0])


def _log_erfcx(ctx: Context, x: ir.Value) -> ir.Value:
    """log(e^{x²} erfc x) for x ≥ 0."""
    ratio = ctx.op.Div(2.0, ctx.op.Add(x, 2.0))
    return ctx.op.Add(ctx.op.Log(ratio), series(ctx, ctx.op.Sub(ctx.op.Mul(ratio, 2.0), 1.0), ERFC_SERIES))


def erfcx(ctx: Context, x: ir.Value) -> ir.Value:
    """e^{x²} erfc x; for negative x from erfc(−x) = 2 − erfc x."""
    op, size = ctx.op, ctx.op.Abs(x)
    right = op.Exp(_log_erfcx(ctx, op.Min(size, 1e150)))
    left = op.Sub(op.Mul(op.Exp(op.Mul(x, x)), 2.0), right)
    far = op.Where(op.IsInf(x), op.Where(op.Less(x, 0.0), number(ctx, INFINITY), number(ctx, 0.0)), right)
    return op.Where(op.IsNaN(x), x, op.Where(op.Less(x, 0.0), left, far))


lowering("aten::special_erfcx")(in_double(erfcx))


def _erfc_inverse(ctx: Context, c: ir.Value) -> ir.Value:
    """Y ≥ 0 with erfc y = c for 0 < c ≤ 1: Winitzki's approximation (2008) and three Newton steps on log erfc."""
    op, a = ctx.op, 0.147
    w = op.Log(op.Mul(c, op.Sub(2.0, c)))
    t = op.Add(op.Mul(w, 0.5), 2 / (math.pi * a))
    y = op.Sqrt(op.Max(op.Sub(op.Sqrt(op.Sub(op.Mul(t, t), op.Div(w, a))), t), 0.0))
    wanted = op.Log(c)
    for _ in range(3):
        scaled = _log_erfcx(ctx, y)
        miss = op.Sub(op.Sub(scaled, op.Mul(y, y)), wanted)
        slope = op.Mul(op.Exp(op.Neg(scaled)), -2 / math.sqrt(math.pi))
        y = op.Max(op.Sub(y, op.Div(miss, slope)), 0.0)
    return y


@lowering("aten::erfinv", "aten::special_erfinv")
@in_double
def erfinv(ctx: Context, x: ir.Value) -> ir.Value:
    """±∞ at the ends, NaN beyond. Near 0 a step on erf itself keeps all digits."""
    op, size = ctx.op, ctx.op.Abs(x)
    inside = op.Min(size, 1.0 - 2.0**-53)
    y = _erfc_inverse(ctx, op.Sub(1.0, inside))
    slope = op.Mul(op.Exp(op.Neg(op.Mul(y, y))), 2 / math.sqrt(math.pi))
    near = op.Sub(y, op.Div(op.Sub(op.Erf(y), inside), slope))
    y = op.Where(op.Less(size, 0.5), near, y)
    ends = op.Where(
        op.Equal(size, 1.0), number(ctx, INFINITY), op.Where(op.LessOrEqual(size, 1.0), y, number(ctx, NAN))
    )
    return op.Mul(op.Sign(x), ends)


@lowering("aten::special_ndtri")
@in_double
def ndtri(ctx: Context, x: ir.Value) -> ir.Value:
    """The quantile of the normal distribution: −√2 erfc⁻¹(2p), from the nearer tail."""
    op = ctx.op
    tail = op.Min(x, op.Sub(1.0, x))
    y = op.Mul(_erfc_inverse(ctx, op.Max(op.Mul(tail, 2.0), 1e-320)), math.sqrt(2))
    signed = op.Where(op.Less(x, 0.5), op.Neg(y), y)
    low = op.Where(op.Equal(x, 0.0), number(ctx, -INFINITY), signed)
    high = op.Where(op.Equal(x, 1.0), number(ctx, INFINITY), low)
    valid = op.And(op.GreaterOrEqual(x, 0.0), op.LessOrEqual(x, 1.0))
    return op.Where(valid, high, number(ctx, NAN))


@lowering("aten::special_log_ndtr")
@in_double
def log_ndtr(ctx: Context, x: ir.Value) -> ir.Value:
    """log(erfc(−x/√2) / 2): in the left tail −x²/2 and the logarithm of the scaled function."""
    op = ctx.op
    t = op.Mul(op.Neg(x), math.sqrt(0.5))
    tail = op.Sub(op.Add(_log_erfcx(ctx, op.Max(t, 0.0)), -math.log(2)), op.Mul(t, t))
    body = op.Log(op.Mul(op.Add(op.Erf(op.Neg(t)), 1.0), 0.5))
    # Right of 1 the logarithm is taken of one minus a small number.
    small = op.Mul(op.Exp(op.Sub(_log_erfcx(ctx, op.Max(op.Neg(t), 0.0)), op.Mul(t, t))), -0.5)
    right = _log1p(ctx, small)
    made = op.Where(op.Less(x, -1.0), tail, op.Where(op.Less(x, 1.0), body, right))
    return op.Where(op.IsNaN(x), x, made)


def _log1p(ctx: Context, x: ir.Value) -> ir.Value:
    """log(1 + x), corrected by what the sum has rounded away."""
    op, whole = ctx.op, ctx.op.Add(x, 1.0)
    kept = op.Sub(whole, 1.0)
    lost = op.Equal(kept, 0.0)
    return op.Where(lost, x, op.Mul(op.Log(whole), op.Div(x, op.Where(lost, number(ctx, 1.0), kept))))
