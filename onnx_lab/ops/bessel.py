"""Bessel functions of order 0 and 1, from Chebyshev series of their smooth parts, in double precision."""

from __future__ import annotations

import math

import onnx_ir as ir

from onnx_lab.lower.context import Context
from onnx_lab.lower.registry import lowering
from onnx_lab.ops.bessel_series import SERIES
from onnx_lab.ops.special import in_double, number, series

NAN, INFINITY = float("nan"), float("inf")


def _on(ctx: Context, name: str, t: ir.Value, end: float) -> ir.Value:
    """A series on 0 ≤ t ≤ end."""
    return series(ctx, ctx.op.Sub(ctx.op.Mul(t, 2 / end), 1.0), SERIES[name])


# -- modified, first kind ----------------------------------------------------------------------------------


def _scaled_i(ctx: Context, x: ir.Value, order: int) -> ir.Value:
    """e^{-|x|} I(x): near holds it (over x for order 1), far holds √x times it in 8/x."""
    op, size = ctx.op, ctx.op.Abs(x)
    near = _on(ctx, f"i{order}_near", op.Min(size, 8.0), 8.0)
    near = op.Mul(near, x) if order else near
    large = op.Max(size, 8.0)
    far = op.Div(_on(ctx, f"i{order}_far", op.Div(8.0, large), 1.0), op.Sqrt(large))
    far = op.Mul(far, op.Sign(x)) if order else far
    made = op.Where(op.LessOrEqual(size, 8.0), near, far)
    return op.Where(op.IsNaN(x), x, made)


def _grown(ctx: Context, x: ir.Value, order: int) -> ir.Value:
    """I(x), by halves of the exponential, so that it overflows no earlier than I does."""
    half = ctx.op.Exp(ctx.op.Mul(ctx.op.Abs(x), 0.5))
    made = ctx.op.Mul(ctx.op.Mul(_scaled_i(ctx, x, order), half), half)
    return ctx.op.Where(ctx.op.IsInf(x), number(ctx, NAN), made)  # as torch has it


@lowering("aten::i0", "aten::special_i0", "aten::special_modified_bessel_i0")
@in_double
def i0(ctx: Context, x: ir.Value) -> ir.Value:
    return _grown(ctx, x, 0)


@lowering("aten::special_i1", "aten::special_modified_bessel_i1")
@in_double
def i1(ctx: Context, x: ir.Value) -> ir.Value:
    return _grown(ctx, x, 1)


@lowering("aten::special_i0e")
@in_double
def i0e(ctx: Context, x: ir.Value) -> ir.Value:
    return _scaled_i(ctx, x, 0)


@lowering("aten::special_i1e")
@in_double
def i1e(ctx: Context, x: ir.Value) -> ir.Value:
    return _scaled_i(ctx, x, 1)


# -- modified, second kind ---------------------------------------------------------------------------------


def _k(ctx: Context, x: ir.Value, order: int, scaled: bool) -> ir.Value:
    """K(x), or eˣ K(x): up to 2 with the logarithm taken out (DLMF 10.31), beyond as √x eˣ K in 2/x."""
    op = ctx.op
    small = op.Min(op.Max(x, 1e-300), 2.0)
    logarithm = op.Mul(op.Log(op.Mul(small, 0.5)), _grown(ctx, small, order))
    smooth = _on(ctx, f"k{order}_near", op.Mul(small, small), 4.0)
    near = op.Sub(smooth, logarithm) if order == 0 else op.Add(op.Div(smooth, small), logarithm)
    near = op.Mul(near, op.Exp(small)) if scaled else near
    large = op.Max(x, 2.0)
    far = op.Div(_on(ctx, f"k{order}_far", op.Div(2.0, large), 1.0), op.Sqrt(large))
    far = far if scaled else op.Mul(far, op.Exp(op.Neg(large)))
    made = op.Where(op.LessOrEqual(x, 2.0), near, far)
    made = op.Where(op.Equal(x, 0.0), number(ctx, INFINITY), made)
    return op.Where(op.GreaterOrEqual(x, 0.0), made, number(ctx, NAN))


@lowering("aten::special_modified_bessel_k0")
@in_double
def k0(ctx: Context, x: ir.Value) -> ir.Value:
    return _k(ctx, x, 0, False)


@lowering("aten::special_modified_bessel_k1")
@in_double
def k1(ctx: Context, x: ir.Value) -> ir.Value:
    return _k(ctx, x, 1, False)


@lowering("aten::special_scaled_modified_bessel_k0")
@in_double
def scaled_k0(ctx: Context, x: ir.Value) -> ir.Value:
    return _k(ctx, x, 0, True)


@lowering("aten::special_scaled_modified_bessel_k1")
@in_double
def scaled_k1(ctx: Context, x: ir.Value) -> ir.Value:
    return _k(ctx, x, 1, True)


# -- first and second kind ---------------------------------------------------------------------------------


def _wave(ctx: Context, x: ir.Value, order: int) -> tuple[ir.Value, ir.Value]:
    """J and Y beyond 8 from modulus and phase (DLMF 10.17): √(2/πx) (P cos φ − Q sin φ) and (P sin φ + Q cos φ)."""
    op = ctx.op
    inverse = op.Div(8.0, op.Max(x, 8.0))
    square = op.Mul(inverse, inverse)
    p, q = _on(ctx, f"p{order}_far", square, 1.0), op.Mul(_on(ctx, f"q{order}_far", square, 1.0), op.Div(inverse, 8.0))
    phase = op.Sub(op.Max(x, 8.0), math.pi / 4 + order * math.pi / 2)
    sine, cosine = op.Sin(phase), op.Cos(phase)
    scale = op.Sqrt(op.Div(2 / math.pi, op.Max(x, 8.0)))
    first = op.Sub(op.Mul(p, cosine), op.Mul(q, sine))
    second = op.Add(op.Mul(p, sine), op.Mul(q, cosine))
    return op.Mul(scale, first), op.Mul(scale, second)


def _j(ctx: Context, x: ir.Value, order: int) -> ir.Value:
    op, size = ctx.op, ctx.op.Abs(x)
    small = op.Min(size, 8.0)
    near = _on(ctx, f"j{order}_near", op.Mul(small, small), 64.0)
    near = op.Mul(near, small) if order else near
    made = op.Where(op.LessOrEqual(size, 8.0), near, _wave(ctx, size, order)[0])
    made = op.Where(op.IsInf(x), number(ctx, NAN), made)  # as torch has it
    made = op.Mul(made, op.Where(op.Less(x, 0.0), number(ctx, -1.0), number(ctx, 1.0))) if order else made
    return op.Where(op.IsNaN(x), x, made)


def _y(ctx: Context, x: ir.Value, order: int) -> ir.Value:
    """Up to 8 with (2/π) log(x/2) J taken out (DLMF 10.8)."""
    op = ctx.op
    small = op.Min(op.Max(x, 1e-300), 8.0)
    smooth = _on(ctx, f"y{order}_near", op.Mul(small, small), 64.0)
    smooth = op.Div(smooth, small) if order else smooth
    near = op.Add(smooth, op.Mul(op.Mul(op.Log(op.Mul(small, 0.5)), 2 / math.pi), _j(ctx, small, order)))
    made = op.Where(op.LessOrEqual(x, 8.0), near, _wave(ctx, x, order)[1])
    made = op.Where(op.Equal(x, 0.0), number(ctx, -INFINITY), op.Where(op.IsInf(x), number(ctx, NAN), made))
    return op.Where(op.GreaterOrEqual(x, 0.0), made, number(ctx, NAN))


@lowering("aten::special_bessel_j0")
@in_double
def j0(ctx: Context, x: ir.Value) -> ir.Value:
    return _j(ctx, x, 0)


@lowering("aten::special_bessel_j1")
@in_double
def j1(ctx: Context, x: ir.Value) -> ir.Value:
    return _j(ctx, x, 1)


@lowering("aten::special_bessel_y0")
@in_double
def y0(ctx: Context, x: ir.Value) -> ir.Value:
    return _y(ctx, x, 0)


@lowering("aten::special_bessel_y1")
@in_double
def y1(ctx: Context, x: ir.Value) -> ir.Value:
    return _y(ctx, x, 1)


@lowering("aten::special_spherical_bessel_j0")
@in_double
def spherical_j0(ctx: Context, x: ir.Value) -> ir.Value:
    """That is sin x / x; near 0 its first terms."""
    op = ctx.op
    square = op.Mul(x, x)
    near = op.Add(op.Mul(square, op.Add(op.Mul(square, 1 / 120), -1 / 6)), 1.0)
    safe = op.Where(op.Less(op.Abs(x), 1e-3), number(ctx, 1.0), x)
    made = op.Where(op.Less(op.Abs(x), 1e-3), near, op.Div(op.Sin(safe), safe))
    return op.Where(op.IsInf(x), number(ctx, 0.0), made)
