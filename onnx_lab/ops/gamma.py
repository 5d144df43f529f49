"""The gamma function's family in double precision: logarithm, derivatives, Hurwitz zeta, incomplete gamma."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import onnx_ir as ir

from onnx_lab.lower.context import Context
from onnx_lab.lower.registry import lowering
from onnx_lab.ops.special import in_double, number

DOUBLE, INT64, BOOL = ir.DataType.DOUBLE, ir.DataType.INT64, ir.DataType.BOOL
INFINITY, NAN = float("inf"), float("nan")
# Bernoulli numbers B₂, B₄ ... (DLMF 24.2).
_BERNOULLI = [
    Fraction(*pair)
    for pair in ((1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510), (43867, 798),
                 (-174611, 330))
]  # fmt: skip
_SHIFT = 10  # below it arguments are moved up by as much, where the asymptotic series has all digits
_TERMS = 32  # of the zeta sum, before its Euler-Maclaurin rest


def _moved(ctx: Context, z: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Z ≥ ½ moved beyond 10: the moved one, where it was moved, and z there (1 elsewhere)."""
    below = ctx.op.Less(z, float(_SHIFT))
    return ctx.op.Where(below, ctx.op.Add(z, float(_SHIFT)), z), below, ctx.op.Where(below, z, number(ctx, 1.0))


def _steps(ctx: Context, z: ir.Value) -> list[ir.Value]:
    return [ctx.op.Add(z, float(k)) if k else z for k in range(_SHIFT)]


def _powers(ctx: Context, z: ir.Value, coefficients: list[float]) -> ir.Value:
    """Σ c_j z^−2j, j from 0."""
    square = ctx.op.Reciprocal(ctx.op.Mul(z, z))
    total = number(ctx, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = ctx.op.Add(ctx.op.Mul(total, square), coefficient)
    return total


def _log_gamma_right(ctx: Context, z: ir.Value) -> ir.Value:
    """Stirling's series (DLMF 5.11.1) for z ≥ ½, moved up and back by Γ(z + 1) = z Γ(z)."""
    op = ctx.op
    far, below, base = _moved(ctx, z)
    coefficients = [float(b / (2 * j * (2 * j - 1))) for j, b in enumerate(_BERNOULLI, start=1)]
    main = op.Sub(op.Mul(op.Sub(far, 0.5), op.Log(far)), far)
    made = op.Add(op.Add(main, 0.5 * math.log(2 * math.pi)), op.Div(_powers(ctx, far, coefficients), far))
    product = base
    for step in _steps(ctx, base)[1:]:
        product = op.Mul(product, step)
    made = op.Where(below, op.Sub(made, op.Log(product)), made)
    return op.Where(op.IsInf(z), z, made)


def _sine_of_pi(ctx: Context, x: ir.Value) -> ir.Value:
    """|sin πx|, exactly 0 at whole numbers."""
    return ctx.op.Abs(ctx.op.Sin(ctx.op.Mul(ctx.op.Sub(x, ctx.op.Round(x)), math.pi)))


def log_gamma(ctx: Context, x: ir.Value) -> ir.Value:
    """Log |Γ(x)|; left of ½ by reflection (DLMF 5.5.3)."""
    op = ctx.op
    left = op.Less(x, 0.5)
    right = _log_gamma_right(ctx, op.Where(left, op.Sub(1.0, x), x))
    mirrored = op.Sub(op.Sub(math.log(math.pi), op.Log(_sine_of_pi(ctx, x))), right)
    made = op.Where(left, mirrored, right)
    return op.Where(op.IsInf(x), number(ctx, INFINITY), op.Where(op.IsNaN(x), x, made))


lowering("aten::lgamma", "aten::special_gammaln")(in_double(log_gamma))


def _psi(ctx: Context, x: ir.Value) -> ir.Value:
    """ψ(x) = log z − 1/2z − Σ B₂ⱼ / 2j z²ʲ (DLMF 5.11.2), moved and mirrored; −∞ at 0, NaN at −1, −2 ..."""
    op = ctx.op
    left = op.Less(x, 0.5)
    z = op.Where(left, op.Sub(1.0, x), x)
    far, below, base = _moved(ctx, z)
    coefficients = [float(b / (2 * j)) for j, b in enumerate(_BERNOULLI, start=1)]
    inverse = op.Reciprocal(far)
    made = op.Sub(
        op.Sub(op.Log(far), op.Mul(inverse, 0.5)), op.Mul(_powers(ctx, far, coefficients), op.Mul(inverse, inverse))
    )
    lost = number(ctx, 0.0)
    for step in _steps(ctx, base):
        lost = op.Add(lost, op.Reciprocal(step))
    made = op.Where(op.IsInf(z), z, op.Where(below, op.Sub(made, lost), made))
    turn = op.Mul(op.Sub(x, op.Round(x)), math.pi)
    mirrored = op.Sub(made, op.Div(math.pi, op.Tan(turn)))
    whole = op.And(op.Equal(x, op.Floor(x)), op.LessOrEqual(x, 0.0))
    poles = op.Where(op.Equal(x, 0.0), number(ctx, -INFINITY), number(ctx, NAN))
    return op.Where(whole, poles, op.Where(left, mirrored, made))


lowering("aten::digamma", "aten::special_digamma", "aten::special_psi")(in_double(_psi))


def hurwitz(ctx: Context, s: ir.Value, q: ir.Value) -> ir.Value:
    """ζ(s, q) = Σ (q + k)^−s by Euler and Maclaurin (DLMF 25.11.28).

    ∞ at s = 1 and at whole q ≤ 0; NaN for s < 1, and for other q ≤ 0 unless s is whole.
    """
    op = ctx.op
    rank = max(ctx.rank(s), ctx.rank(q))
    terms = ctx.constant(np.arange(_TERMS, dtype=np.float64).reshape([_TERMS] + [1] * rank))
    each = op.Pow(op.Add(q, terms), op.Neg(s))
    total = op.ReduceSum(each, [0], keepdims=0)
    end = op.Add(q, float(_TERMS))
    power = op.Pow(end, op.Neg(s))
    total = op.Add(total, op.Add(op.Div(op.Mul(power, end), op.Sub(s, 1.0)), op.Mul(power, 0.5)))
    rising, falling = s, op.Div(power, end)
    for j, bernoulli in enumerate(_BERNOULLI, start=1):
        total = op.Add(total, op.Mul(op.Mul(rising, falling), float(bernoulli) / math.factorial(2 * j)))
        rising = op.Mul(op.Mul(rising, op.Add(s, float(2 * j - 1))), op.Add(s, float(2 * j)))
        falling = op.Div(falling, op.Mul(end, end))
    left = op.LessOrEqual(q, 0.0)
    whole_q, whole_s = op.Equal(q, op.Floor(q)), op.Equal(s, op.Floor(s))
    made = op.Where(op.And(left, op.Not(whole_s)), number(ctx, NAN), total)
    made = op.Where(op.And(left, whole_q), number(ctx, INFINITY), made)
    # Left of this the sum would have to begin with more terms.
    made = op.Where(op.And(op.Less(q, 8.0 - _TERMS), op.Not(whole_q)), number(ctx, NAN), made)
    made = op.Where(op.Equal(s, 1.0), number(ctx, INFINITY), op.Where(op.Less(s, 1.0), number(ctx, NAN), made))
    return op.Where(op.Or(op.IsNaN(s), op.IsNaN(q)), number(ctx, NAN), made)


@lowering("aten::special_zeta", "aten::special_zeta.self_scalar", "aten::special_zeta.other_scalar")
def zeta(ctx: Context, x: ir.Value, other: ir.Value) -> ir.Value:
    return ctx.cast(hurwitz(ctx, ctx.value(x, DOUBLE), ctx.value(other, DOUBLE)), ctx.out_dtype)


def _derivative(ctx: Context, n: int, x: ir.Value) -> ir.Value:
    """ψ⁽ⁿ⁾(x) = (−1)ⁿ⁺¹ n! ζ(n + 1, x) (DLMF 25.11.12)."""
    value = ctx.cast(x, DOUBLE)
    if n == 0:
        return ctx.cast(_psi(ctx, value), ctx.out_dtype)
    sign = 1.0 if n % 2 else -1.0
    made = ctx.op.Mul(hurwitz(ctx, number(ctx, float(n + 1)), value), sign * math.factorial(n))
    return ctx.cast(made, ctx.out_dtype)


@lowering("aten::polygamma")
def polygamma(ctx: Context, n: int, x: ir.Value) -> ir.Value:
    return _derivative(ctx, n, x)


@lowering("aten::special_polygamma")
def special_polygamma(ctx: Context, n: int, x: ir.Value) -> ir.Value:
    return _derivative(ctx, n, x)


@lowering("aten::mvlgamma", "aten::special_multigammaln")
def mvlgamma(ctx: Context, x: ir.Value, p: int) -> ir.Value:
    """p(p − 1)/4 · log π + Σ log Γ(x − j/2) for j from 0 to p − 1 (DLMF 35.3.5)."""
    value = ctx.cast(x, DOUBLE)
    total = number(ctx, p * (p - 1) / 4 * math.log(math.pi))
    for j in range(p):
        total = ctx.op.Add(total, log_gamma(ctx, ctx.op.Sub(value, j / 2) if j else value))
    return ctx.cast(total, ctx.out_dtype)
