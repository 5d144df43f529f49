"""Element by element: unary functions, arithmetic with torch's promotion, selection."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import onnx_ir as ir

from onnx_lab.lower.context import Context
from onnx_lab.lower.registry import lowering

Operand = Any  # ir.Value or a Python number
FLOAT, DOUBLE, INT64, BOOL = ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.INT64, ir.DataType.BOOL

# The result is floating point: integers are converted first.
FLOAT_UNARY = {
    "aten::exp": "Exp", "aten::log": "Log", "aten::sqrt": "Sqrt", "aten::sin": "Sin", "aten::cos": "Cos",
    "aten::tan": "Tan", "aten::asin": "Asin", "aten::acos": "Acos", "aten::atan": "Atan", "aten::sinh": "Sinh",
    "aten::cosh": "Cosh", "aten::asinh": "Asinh", "aten::acosh": "Acosh", "aten::atanh": "Atanh", "aten::erf": "Erf",
    "aten::sigmoid": "Sigmoid", "aten::tanh": "Tanh", "aten::reciprocal": "Reciprocal", "aten::special_erf": "Erf",
    "aten::special_expit": "Sigmoid",
}  # fmt: skip
# Integers stay as they are.
ROUNDING = {"aten::floor": "Floor", "aten::ceil": "Ceil", "aten::round": "Round"}


def _float_unary(op_type: str) -> Callable[..., ir.Value]:
    def unary(ctx: Context, x: ir.Value) -> ir.Value:
        return getattr(ctx.op, op_type)(ctx.cast(x, ctx.out_dtype))

    return unary


def _rounding(op_type: str) -> Callable[..., ir.Value]:
    def rounding(ctx: Context, x: ir.Value) -> ir.Value:
        return getattr(ctx.op, op_type)(x) if is_float(x) else x

    return rounding


for key, op_type in FLOAT_UNARY.items():
    lowering(key)(_float_unary(op_type))
for key, op_type in ROUNDING.items():
    lowering(key)(_rounding(op_type))


def is_float(x: ir.Value) -> bool:
    return x.dtype is not None and x.dtype.is_floating_point()


@lowering("aten::neg")
def neg(ctx: Context, x: ir.Value) -> ir.Value:
    if x.dtype in (ir.DataType.UINT8, ir.DataType.UINT16, ir.DataType.UINT32):  # modulo 2^bits, as torch
        return ctx.cast(ctx.op.Neg(ctx.cast(x, INT64)), x.dtype)
    return ctx.op.Neg(x)


@lowering("aten::abs")
def abs_(ctx: Context, x: ir.Value) -> ir.Value:
    return x if x.dtype == BOOL else ctx.op.Abs(x)


@lowering("aten::sign", "aten::sgn")
def sign(ctx: Context, x: ir.Value) -> ir.Value:
    """0 for NaN, as torch has it."""
    if x.dtype == BOOL:
        return x
    made = ctx.op.Sign(x)
    return ctx.op.Where(ctx.op.IsNaN(x), ctx.constant(0, x.dtype), made) if is_float(x) else made


@lowering("aten::signbit")
def signbit(ctx: Context, x: ir.Value) -> ir.Value:
    """Also true for −0.0, which its reciprocal tells from 0.0."""
    if x.dtype == BOOL:
        return ctx.op.And(x, ctx.op.Not(x))
    if not is_float(x):
        return ctx.op.Less(ctx.cast(x, INT64), 0)
    wide = x if x.dtype == DOUBLE else ctx.cast(x, FLOAT)
    return ctx.op.Or(ctx.op.Less(wide, 0.0), ctx.op.Equal(ctx.op.Reciprocal(wide), float("-inf")))


@lowering("aten::angle")
def angle(ctx: Context, x: ir.Value) -> ir.Value:
    """π for negative numbers, 0 for others, NaN for NaN."""
    value = ctx.cast(x, ctx.out_dtype)
    turned = ctx.op.Where(ctx.op.Less(value, 0.0), ctx.constant(math.pi, value.dtype), ctx.constant(0.0, value.dtype))
    return ctx.op.Where(ctx.op.IsNaN(value), value, turned)


@lowering("aten::frexp.Tensor")
def frexp(ctx: Context, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """X = mantissa · 2^exponent with ½ ≤ |mantissa| < 1. Computed in double, which holds every float exactly."""
    op, wide = ctx.op, ctx.cast(x, DOUBLE)
    number = op.Not(op.Or(op.Or(op.IsNaN(wide), op.IsInf(wide)), op.Equal(wide, 0.0)))
    size = op.Where(number, op.Abs(wide), ctx.constant(1.0, DOUBLE))
    exponent = op.Floor(op.Mul(op.Log(size), 1 / math.log(2)))
    # The logarithm may be off by its last bit at powers of two.
    for limit, step in ((2.0, 1.0), (1.0, -1.0)):
        ratio = op.Div(size, op.Pow(ctx.constant(2.0, DOUBLE), exponent))
        wrong = op.GreaterOrEqual(ratio, limit) if step > 0 else op.Less(ratio, limit)
        exponent = op.Where(wrong, op.Add(exponent, step), exponent)
    exponent = op.Add(exponent, 1.0)
    half = op.Pow(ctx.constant(2.0, DOUBLE), op.Floor(op.Mul(exponent, 0.5)))
    rest = op.Pow(ctx.constant(2.0, DOUBLE), op.Sub(exponent, op.Floor(op.Mul(exponent, 0.5))))
    mantissa = op.Where(number, op.Div(op.Div(wide, half), rest), wide)
    power = op.Where(number, exponent, ctx.constant(0.0, DOUBLE))
    return ctx.cast(mantissa, x.dtype), ctx.cast(power, ir.DataType.INT32)


@lowering("aten::trunc", "aten::fix")
def trunc(ctx: Context, x: ir.Value) -> ir.Value:
    return ctx.op.Mul(ctx.op.Sign(x), ctx.op.Floor(ctx.op.Abs(x))) if is_float(x) else x


@lowering("aten::frac")
def frac(ctx: Context, x: ir.Value) -> ir.Value:
    return ctx.op.Sub(x, trunc(ctx, x))


@lowering("aten::round.decimals")
def round_decimals(ctx: Context, x: ir.Value, *, decimals: int) -> ir.Value:
    """Scale, round half to even, scale back, in torch's order of operations."""
    if decimals == 0 or not is_float(x):
        return ctx.op.Round(x) if is_float(x) else x
    ten = float(10 ** abs(decimals))
    if decimals > 0:
        return ctx.op.Div(ctx.op.Round(ctx.op.Mul(x, ten)), ten)
    return ctx.op.Mul(ctx.op.Round(ctx.op.Div(x, ten)), ten)


@lowering("aten::rsqrt")
def rsqrt(ctx: Context, x: ir.Value) -> ir.Value:
    return ctx.op.Reciprocal(ctx.op.Sqrt(ctx.cast(x, ctx.out_dtype)))


@lowering("aten::square")
def square(ctx: Context, x: ir.Value) -> ir.Value:
    value = ctx.cast(x, ctx.out_dtype)
    return ctx.op.Mul(value, value)


@lowering("aten::exp2", "aten::special_exp2")
def exp2(ctx: Context, x: ir.Value) -> ir.Value:
    return ctx.op.Pow(ctx.constant(2, ctx.out_dtype), ctx.cast(x, ctx.out_dtype))


@lowering("aten::expm1", "aten::special_expm1")
def expm1(ctx: Context, x: ir.Value) -> ir.Value:
    """e^x - 1 without cancellation near zero: tanh(x/2) · (e^x + 1)."""
    value = ctx.cast(x, ctx.out_dtype)
    exact = ctx.op.Mul(ctx.op.Tanh(ctx.op.Mul(value, 0.5)), ctx.op.Add(ctx.op.Exp(value), 1.0))
    small = ctx.op.Less(ctx.op.Abs(value), 0.5)
    return ctx.op.Where(small, exact, ctx.op.Sub(ctx.op.Exp(value), 1.0))


@lowering("aten::log1p", "aten::special_log1p")
def log1p(ctx: Context, x: ir.Value) -> ir.Value:
    """log(1 + x), corrected by the part of x that 1 + x has rounded away."""
    value = ctx.cast(x, ctx.out_dtype)
    whole = ctx.op.Add(value, 1.0)
    kept = ctx.op.Sub(whole, 1.0)
    same = ctx.op.Or(ctx.op.Equal(kept, 0.0), ctx.op.IsInf(whole))
    ratio = ctx.op.Div(value, ctx.op.Where(same, ctx.constant(1.0, value.dtype), kept))
    log = ctx.op.Log(whole)  # of −∞: NaN
    return ctx.op.Where(same, ctx.op.Where(ctx.op.IsInf(whole), log, value), ctx.op.Mul(log, ratio))


def _log_base(factor: float) -> Callable[..., ir.Value]:
    def log_base(ctx: Context, x: ir.Value) -> ir.Value:
        return ctx.op.Mul(ctx.op.Log(ctx.cast(x, ctx.out_dtype)), factor)

    return log_base


lowering("aten::log2")(_log_base(1 / math.log(2)))
lowering("aten::log10")(_log_base(1 / math.log(10)))


def _scaled(factor: float) -> Callable[..., ir.Value]:
    def scaled(ctx: Context, x: ir.Value) -> ir.Value:
        return ctx.op.Mul(ctx.cast(x, ctx.out_dtype), factor)

    return scaled


lowering("aten::deg2rad")(_scaled(math.pi / 180))
lowering("aten::rad2deg")(_scaled(180 / math.pi))


@lowering("aten::erfc")
def erfc(ctx: Context, x: ir.Value) -> ir.Value:
    return ctx.op.Sub(1.0, ctx.op.Erf(ctx.cast(x, ctx.out_dtype)))


# -- arithmetic -----------------------------------------------------------------------------------------


def _scaled_by(ctx: Context, x: Operand, alpha: Any) -> Operand:
    if isinstance(alpha, (int, float)) and alpha == 1:
        return x
    return ctx.op.Mul(ctx.value(x, ctx.out_dtype), ctx.value(alpha, ctx.out_dtype))


def _plus(ctx: Context, a: Operand, b: Operand, alpha: Any) -> ir.Value:
    """Booleans add as logical or."""
    if ctx.out_dtype == BOOL:
        return ctx.op.Or(ctx.value(a, BOOL), ctx.value(b, BOOL)) if alpha else ctx.value(a, BOOL)
    return ctx.op.Add(ctx.value(a, ctx.out_dtype), ctx.value(_scaled_by(ctx, b, alpha), ctx.out_dtype))


@lowering("aten::add.Tensor")
def add(ctx: Context, x: Operand, other: Operand, *, alpha: Any = 1) -> ir.Value:
    return _plus(ctx, x, other, alpha)


@lowering("aten::add.Scalar")
def add_scalar(ctx: Context, x: ir.Value, other: Operand, alpha: Any = 1) -> ir.Value:
    return _plus(ctx, x, other, alpha)


@lowering("aten::sub.Tensor")
def sub(ctx: Context, x: Operand, other: Operand, *, alpha: Any = 1) -> ir.Value:
    return ctx.op.Sub(ctx.value(x, ctx.out_dtype), ctx.value(_scaled_by(ctx, other, alpha), ctx.out_dtype))


@lowering("aten::sub.Scalar")
def sub_scalar(ctx: Context, x: ir.Value, other: Operand, alpha: Any = 1) -> ir.Value:
    return sub(ctx, x, other, alpha=alpha)


@lowering("aten::rsub.Tensor")
def rsub(ctx: Context, x: Operand, other: Operand, *, alpha: Any = 1) -> ir.Value:
    return sub(ctx, other, x, alpha=alpha)


@lowering("aten::rsub.Scalar")
def rsub_scalar(ctx: Context, x: ir.Value, other: Operand, alpha: Any = 1) -> ir.Value:
    return sub(ctx, other, x, alpha=alpha)


@lowering("aten::mul.Tensor", "aten::mul.Scalar")
def mul(ctx: Context, x: Operand, other: Operand) -> ir.Value:
    a, b = ctx.value(x, ctx.out_dtype), ctx.value(other, ctx.out_dtype)
    return ctx.op.And(a, b) if ctx.out_dtype == BOOL else ctx.op.Mul(a, b)


@lowering("aten::div.Tensor", "aten::div.Scalar", "aten::true_divide.Tensor")
def div(ctx: Context, x: Operand, other: Operand) -> ir.Value:
    return ctx.op.Div(ctx.value(x, ctx.out_dtype), ctx.value(other, ctx.out_dtype))


@lowering("aten::div.Tensor_mode", "aten::div.Scalar_mode")
def div_mode(ctx: Context, x: Operand, other: Operand, *, rounding_mode: str | None) -> ir.Value:
    if rounding_mode is None:
        return div(ctx, x, other)
    return floor_div(ctx, x, other) if rounding_mode == "floor" else trunc_div(ctx, x, other)


@lowering("aten::floor_divide", "aten::floor_divide.Scalar")
def floor_divide(ctx: Context, x: Operand, other: Operand) -> ir.Value:
    return floor_div(ctx, x, other)


def trunc_div(ctx: Context, x: Operand, other: Operand) -> ir.Value:
    """Toward zero, which is what ONNX Div does on integers."""
    made = ctx.op.Div(ctx.value(x, ctx.out_dtype), ctx.value(other, ctx.out_dtype))
    return trunc(ctx, made)


def floor_div(ctx: Context, x: Operand, other: Operand) -> ir.Value:
    """Rounds down. On floats through the remainder, as torch does, which differs from floor(a / b)."""
    a, b = ctx.value(x, ctx.out_dtype), ctx.value(other, ctx.out_dtype)
    op = ctx.op
    if not ctx.out_dtype.is_floating_point():
        quotient = op.Div(a, b)
        if not ctx.out_dtype.is_signed():
            return quotient
        rest = op.Sub(a, op.Mul(quotient, b))
        zero = ctx.constant(0, ctx.out_dtype)
        wrong = op.And(op.Not(op.Equal(rest, zero)), op.Xor(op.Less(rest, zero), op.Less(b, zero)))
        return op.Sub(quotient, ctx.cast(wrong, ctx.out_dtype))
    rest = op.Mod(a, b, fmod=1)
    quotient = op.Div(op.Sub(a, rest), b)
    wrong = op.And(op.Not(op.Equal(rest, 0.0)), op.Xor(op.Less(rest, 0.0), op.Less(b, 0.0)))
    quotient = op.Sub(quotient, ctx.cast(wrong, ctx.out_dtype))
    down = op.Floor(quotient)
    near = op.Where(op.Greater(op.Sub(quotient, down), 0.5), op.Add(down, 1.0), down)
    return op.Where(op.Equal(b, 0.0), op.Div(a, b), near)


@lowering("aten::remainder.Tensor", "aten::remainder.Scalar", "aten::remainder.Scalar_Tensor")
def remainder(ctx: Context, x: Operand, other: Operand) -> ir.Value:
    """The sign of the divisor."""
    a, b = ctx.value(x, ctx.out_dtype), ctx.value(other, ctx.out_dtype)
    if not ctx.out_dtype.is_floating_point():
        return ctx.op.Mod(a, b)
    rest = ctx.op.Mod(a, b, fmod=1)
    wrong = ctx.op.And(ctx.op.Not(ctx.op.Equal(rest, 0.0)), ctx.op.Xor(ctx.op.Less(rest, 0.0), ctx.op.Less(b, 0.0)))
    return ctx.op.Where(wrong, ctx.op.Add(rest, b), rest)


@lowering("aten::fmod.Tensor", "aten::fmod.Scalar")
def fmod(ctx: Context, x: Operand, other: Operand) -> ir.Value:
    """The sign of the dividend."""
    return ctx.op.Mod(ctx.value(x, ctx.out_dtype), ctx.value(other, ctx.out_dtype), fmod=1)


@lowering("aten::addcmul")
def addcmul(ctx: Context, x: ir.Value, tensor1: ir.Value, tensor2: ir.Value, *, value: Any = 1) -> ir.Value:
    a, b = (ctx.cast(one, ctx.out_dtype) for one in (tensor1, tensor2))
    return ctx.op.Add(ctx.cast(x, ctx.out_dtype), _scaled_by(ctx, ctx.op.Mul(a, b), value))


@lowering("aten::addcdiv")
def addcdiv(ctx: Context, x: ir.Value, tensor1: ir.Value, tensor2: ir.Value, *, value: Any = 1) -> ir.Value:
    a, b = (ctx.cast(one, ctx.out_dtype) for one in (tensor1, tensor2))
    return ctx.op.Add(ctx.cast(x, ctx.out_dtype), ctx.op.Div(_scaled_by(ctx, a, value), b))


@lowering("aten::lerp.Scalar", "aten::lerp.Tensor")
def lerp(ctx: Context, x: ir.Value, end: ir.Value, weight: Operand) -> ir.Value:
    """From the nearer end, as torch does, so that weights 0 and 1 are exact."""
    w, op = ctx.value(weight, ctx.out_dtype), ctx.op
    span = op.Sub(end, x)
    from_end = op.Sub(end, op.Mul(span, op.Sub(1.0, w)))
    return op.Where(op.Less(op.Abs(w), 0.5), op.Add(x, op.Mul(w, span)), from_end)


@lowering("aten::atan2", "aten::arctan2")
def atan2(ctx: Context, x: ir.Value, other: ir.Value) -> ir.Value:
    """The angle of (other, x), quadrant by quadrant; the sign of a zero is not kept."""
    a, b, op = ctx.cast(x, ctx.out_dtype), ctx.cast(other, ctx.out_dtype), ctx.op
    # Of the smaller over the larger, so that neither zero nor infinity divides.
    steep = op.Greater(op.Abs(a), op.Abs(b))
    low, high = op.Where(steep, b, a), op.Where(steep, a, b)
    both = op.And(op.IsInf(a), op.IsInf(b))
    ratio = op.Where(both, op.Mul(op.Sign(low), op.Sign(high)), op.Div(low, high))
    ratio = op.Where(op.And(op.Equal(a, 0.0), op.Equal(b, 0.0)), ctx.constant(0.0, ctx.out_dtype), ratio)
    angle = op.Atan(ratio)
    turned = op.Sub(op.Where(op.Less(a, 0.0), ctx.constant(-math.pi / 2, ctx.out_dtype), math.pi / 2), angle)
    side = op.Where(op.Less(a, 0.0), ctx.constant(-math.pi, ctx.out_dtype), math.pi)
    flat = op.Where(op.Less(b, 0.0), op.Add(angle, side), angle)
    return op.Where(steep, turned, flat)


@lowering("aten::hypot")
def hypot(ctx: Context, x: ir.Value, other: ir.Value) -> ir.Value:
    op = ctx.op
    a, b = (op.Abs(ctx.cast(one, ctx.out_dtype)) for one in (x, other))
    large, small = op.Max(a, b), op.Min(a, b)
    ratio = op.Div(small, op.Where(op.Equal(large, 0.0), ctx.constant(1.0, large.dtype), large))
    length = op.Mul(large, op.Sqrt(op.Add(op.Mul(ratio, ratio), 1.0)))
    return op.Where(op.IsInf(large), large, length)


@lowering("aten::logaddexp")
def logaddexp(ctx: Context, x: ir.Value, other: ir.Value) -> ir.Value:
    return _log_add(ctx, x, other, 1.0)


@lowering("aten::logaddexp2")
def logaddexp2(ctx: Context, x: ir.Value, other: ir.Value) -> ir.Value:
    return _log_add(ctx, x, other, math.log(2))


def _log_add(ctx: Context, x: ir.Value, other: ir.Value, base: float) -> ir.Value:
    """Max + log(1 + e^-|a - b|); equal infinities are their own sum."""
    op = ctx.op
    a, b = ctx.cast(x, ctx.out_dtype), ctx.cast(other, ctx.out_dtype)
    large = op.Max(a, b)
    gap = op.Neg(op.Abs(op.Sub(a, b)))
    tail = op.Div(log1p(ctx, op.Exp(op.Mul(gap, base))), base)
    same = op.And(op.IsInf(a), op.Equal(a, b))
    return op.Where(same, a, op.Add(large, tail))


@lowering("aten::xlogy.Tensor", "aten::xlogy.Scalar_Other", "aten::xlogy.Scalar_Self")
def xlogy(ctx: Context, x: Operand, other: Operand) -> ir.Value:
    """X · log(y), 0 where x is 0 and y is no NaN."""
    a, b = ctx.value(x, ctx.out_dtype), ctx.value(other, ctx.out_dtype)
    zero = ctx.op.And(ctx.op.Equal(a, 0.0), ctx.op.Not(ctx.op.IsNaN(b)))
    return ctx.op.Where(zero, ctx.constant(0.0, ctx.out_dtype), ctx.op.Mul(a, ctx.op.Log(b)))


@lowering("aten::copysign.Tensor", "aten::copysign.Scalar")
def copysign(ctx: Context, x: ir.Value, other: Operand) -> ir.Value:
    """|x| with the sign of other; the sign of a zero shows in its reciprocal."""
    size, b = ctx.op.Abs(ctx.cast(x, ctx.out_dtype)), ctx.value(other, ctx.out_dtype)
    negative = ctx.op.Or(ctx.op.Less(b, 0.0), ctx.op.Less(ctx.op.Reciprocal(b), 0.0))
    return ctx.op.Where(negative, ctx.op.Neg(size), size)
