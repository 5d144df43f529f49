"""Complex arithmetic on pairs of reals, and the operators that act on both parts alike."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import onnx_ir as ir

from onnx_lab.lower.complex import Complex, pack, split
from onnx_lab.lower.context import Context
from onnx_lab.lower.registry import complex_lowering, part_wise

Operand = Any  # Complex, a real ir.Value, or a Python number

# f(a + ib) = f(a) + i f(b): moving, copying, picking and adding elements.
part_wise(
    "aten::view", "aten::reshape", "aten::_unsafe_view", "aten::flatten.using_ints", "aten::unflatten.int",
    "aten::contiguous", "aten::clone", "aten::detach", "aten::alias", "aten::lift_fresh_copy", "aten::permute",
    "aten::transpose.int", "aten::t", "aten::movedim.int", "aten::movedim.intlist", "aten::swapaxes",
    "aten::unsqueeze", "aten::squeeze", "aten::squeeze.dim", "aten::squeeze.dims", "aten::expand",
    "aten::expand_as", "aten::view_as", "aten::reshape_as", "aten::slice.Tensor", "aten::select.int",
    "aten::narrow", "aten::split.Tensor", "aten::split_with_sizes", "aten::chunk", "aten::unbind.int",
    "aten::cat", "aten::stack", "aten::roll", "aten::flip", "aten::repeat", "aten::tile", "aten::diagonal",
    "aten::index.Tensor", "aten::index_select", "aten::gather", "aten::take", "aten::tril", "aten::triu",
    "aten::slice_scatter", "aten::select_scatter", "aten::diagonal_scatter", "aten::zeros_like", "aten::fft_fftshift",
    "aten::fft_ifftshift", "aten::sum", "aten::sum.dim_IntList", "aten::mean", "aten::mean.dim", "aten::cumsum",
    "aten::neg", "aten::masked_select", "aten::broadcast_to", "aten::unfold", "aten::diag", "aten::diag_embed",
    "aten::as_strided", "aten::as_strided_copy", "aten::as_strided_scatter", "aten::index_put", "aten::index_copy",
    "aten::_unsafe_index_put", "aten::scatter.src", "aten::scatter_add", "aten::new_empty", "aten::new_zeros",
    "aten::empty_like", "aten::empty.memory_format", "aten::empty_strided", "aten::new_empty_strided",
    "aten::empty_permuted", "aten::meshgrid", "aten::meshgrid.indexing", "aten::rot90", "aten::diff", "aten::trace",
    "aten::masked_scatter", "aten::repeat_interleave.self_int", "aten::take_along_dim", "aten::put",
    "aten::_unsafe_index.Tensor", "aten::copy", "aten::tensor_split.sections", "aten::hstack", "aten::vstack",
)  # fmt: skip


def parts(ctx: Context, x: Operand) -> tuple[Any, Any]:
    """Real and imaginary part; a real operand has no imaginary part (None)."""
    if isinstance(x, Complex):
        return x.real, x.imag
    if isinstance(x, complex):
        return ctx.constant(x.real, ctx.out_dtype), ctx.constant(x.imag, ctx.out_dtype)
    if isinstance(x, ir.Value):
        return ctx.cast(x, ctx.out_dtype), None
    return ctx.constant(x, ctx.out_dtype), None


def _part_dtype(ctx: Context, *operands: Operand) -> ir.DataType:
    found = [one.real.dtype for one in operands if isinstance(one, Complex)]
    return max((dtype for dtype in found if dtype is not None), key=lambda dtype: dtype.bitwidth)


def scaled(ctx: Context, x: Operand, factor: Any) -> Operand:
    return x if factor == 1 else mul(ctx, x, factor)


@complex_lowering("aten::mul.Tensor", "aten::mul.Scalar")
def mul(ctx: Context, x: Operand, other: Operand) -> Complex:
    """(a + ib)(c + id)."""
    (a, b), (c, d) = parts(ctx, x), parts(ctx, other)
    op = ctx.op
    if b is None:
        return Complex(op.Mul(a, c), op.Mul(a, d))
    if d is None:
        return Complex(op.Mul(a, c), op.Mul(b, c))
    return Complex(op.Sub(op.Mul(a, c), op.Mul(b, d)), op.Add(op.Mul(a, d), op.Mul(b, c)))


@complex_lowering("aten::div.Tensor", "aten::div.Scalar")
def div(ctx: Context, x: Operand, other: Operand) -> Complex:
    """X times the conjugate of the divisor, over its squared magnitude."""
    c, d = parts(ctx, other)
    op = ctx.op
    if d is None:
        a, b = parts(ctx, x)
        return Complex(op.Div(a, c), op.Div(b, c))
    norm = op.Add(op.Mul(c, c), op.Mul(d, d))
    over = mul(ctx, x, Complex(c, op.Neg(d)))
    return Complex(op.Div(over.real, norm), op.Div(over.imag, norm))


@complex_lowering("aten::reciprocal")
def reciprocal(ctx: Context, x: Complex) -> Complex:
    return div(ctx, 1.0, x)


@complex_lowering("aten::add.Tensor", "aten::add.Scalar")
def add(ctx: Context, x: Operand, other: Operand, alpha: Any = 1) -> Complex:
    return _sum(ctx, x, scaled(ctx, other, alpha), ctx.op.Add)


@complex_lowering("aten::sub.Tensor", "aten::sub.Scalar")
def sub(ctx: Context, x: Operand, other: Operand, alpha: Any = 1) -> Complex:
    return _sum(ctx, x, scaled(ctx, other, alpha), ctx.op.Sub)


@complex_lowering("aten::rsub.Tensor", "aten::rsub.Scalar")
def rsub(ctx: Context, x: Operand, other: Operand, alpha: Any = 1) -> Complex:
    return sub(ctx, other, x, alpha)


def _sum(ctx: Context, x: Operand, other: Operand, combine: Callable[..., ir.Value]) -> Complex:
    (a, b), (c, d) = parts(ctx, x), parts(ctx, other)
    zero = ctx.constant(0, ctx.out_dtype)
    return Complex(combine(a, c), combine(zero if b is None else b, zero if d is None else d))


@complex_lowering("aten::abs")
def abs_(ctx: Context, x: Complex) -> ir.Value:
    """√(a² + b²), scaled by the larger part so that it neither overflows nor underflows."""
    op = ctx.op
    a, b = op.Abs(x.real), op.Abs(x.imag)
    large, small = op.Max(a, b), op.Min(a, b)
    ratio = op.Div(small, op.Where(op.Equal(large, 0.0), ctx.constant(1.0, large.dtype), large))
    length = op.Mul(large, op.Sqrt(op.Add(op.Mul(ratio, ratio), 1.0)))
    unbounded = op.Or(op.IsInf(a), op.IsInf(b))
    return op.Where(unbounded, ctx.constant(float("inf"), large.dtype), length)


@complex_lowering("aten::angle")
def angle(ctx: Context, x: Complex) -> ir.Value:
    return ctx.lower("aten::atan2", x.imag, x.real)


@complex_lowering("aten::exp")
def exp(ctx: Context, x: Complex) -> Complex:
    size = ctx.op.Exp(x.real)
    return Complex(ctx.op.Mul(size, ctx.op.Cos(x.imag)), ctx.op.Mul(size, ctx.op.Sin(x.imag)))


@complex_lowering("aten::masked_fill.Scalar", "aten::masked_fill.Tensor")
def masked_fill(ctx: Context, x: Complex, mask: ir.Value, value: Operand) -> Complex:
    a, b = parts(ctx, value)
    imag = ctx.constant(0.0, x.imag.dtype) if b is None else b
    return Complex(ctx.op.Where(mask, a, x.real), ctx.op.Where(mask, imag, x.imag))


@complex_lowering("aten::ones_like")
def ones_like(ctx: Context, x: Complex, **options: Any) -> Complex:
    zero = ctx.op.Mul(x.imag, 0.0)
    return Complex(ctx.op.Add(ctx.op.Mul(x.real, 0.0), 1.0), zero)


def _filled(ctx: Context, sizes: Any, value: Any) -> Complex:
    number = complex(value)
    return Complex(*(ctx.full(sizes, part, ctx.out_dtype) for part in (number.real, number.imag)))


@complex_lowering("aten::full_like")
def full_like(ctx: Context, x: Operand, fill_value: Any, **options: Any) -> Complex:
    like = x.real if isinstance(x, Complex) else x
    return _filled(ctx, ctx.sizes(like), fill_value)


@complex_lowering("aten::fill.Scalar")
def fill(ctx: Context, x: Complex, value: Any) -> Complex:
    return _filled(ctx, ctx.sizes(x.real), value)


@complex_lowering("aten::scalar_tensor")
def scalar_tensor(ctx: Context, s: Any, **options: Any) -> Complex:
    return _filled(ctx, [], s)


@complex_lowering("aten::constant_pad_nd")
def constant_pad_nd(ctx: Context, x: Complex, pad: Any, value: Any = 0) -> Complex:
    number = complex(value)
    pairs = ((x.real, number.real), (x.imag, number.imag))
    return Complex(*(ctx.lower("aten::constant_pad_nd", one, pad, part) for one, part in pairs))


def _spread_of(ctx: Context, x: Complex, dim: Any, correction: Any, keepdim: bool) -> ir.Value:
    """The variance of a complex number is that of its parts together."""
    each = [
        ctx.lower("aten::var.correction", one, dim, correction=correction, keepdim=keepdim) for one in (x.real, x.imag)
    ]
    made: ir.Value = ctx.op.Add(*each)
    return made


@complex_lowering("aten::var.correction")
def var(ctx: Context, x: Complex, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> ir.Value:
    return _spread_of(ctx, x, dim, correction, keepdim)


@complex_lowering("aten::std.correction")
def std(ctx: Context, x: Complex, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> ir.Value:
    return ctx.op.Sqrt(_spread_of(ctx, x, dim, correction, keepdim))


@complex_lowering("aten::var")
def var_all(ctx: Context, x: Complex, unbiased: bool = True) -> ir.Value:
    return _spread_of(ctx, x, None, int(unbiased), False)


@complex_lowering("aten::std")
def std_all(ctx: Context, x: Complex, unbiased: bool = True) -> ir.Value:
    return ctx.op.Sqrt(var_all(ctx, x, unbiased))


@complex_lowering("aten::log2")
def log2(ctx: Context, x: Complex) -> Complex:
    return mul(ctx, log(ctx, x), 1 / math.log(2))


@complex_lowering("aten::log10")
def log10(ctx: Context, x: Complex) -> Complex:
    return mul(ctx, log(ctx, x), 1 / math.log(10))


@complex_lowering("aten::rsqrt")
def rsqrt(ctx: Context, x: Complex) -> Complex:
    return reciprocal(ctx, sqrt(ctx, x))


@complex_lowering("aten::tan")
def tan(ctx: Context, x: Complex) -> Complex:
    """That is −i tanh of iz."""
    turned = tanh(ctx, Complex(ctx.op.Neg(x.imag), x.real))
    return Complex(turned.imag, ctx.op.Neg(turned.real))


@complex_lowering("aten::isnan")
def isnan(ctx: Context, x: Complex) -> ir.Value:
    return ctx.op.Or(ctx.op.IsNaN(x.real), ctx.op.IsNaN(x.imag))


@complex_lowering("aten::sigmoid")
def sigmoid(ctx: Context, x: Complex) -> Complex:
    return div(ctx, 1.0, add(ctx, exp(ctx, Complex(ctx.op.Neg(x.real), ctx.op.Neg(x.imag))), 1.0))


@complex_lowering("aten::silu")
def silu(ctx: Context, x: Complex) -> Complex:
    return mul(ctx, x, sigmoid(ctx, x))


@complex_lowering("aten::cosh")
def cosh(ctx: Context, x: Complex) -> Complex:
    """That is cosh a cos b + i sinh a sin b."""
    op = ctx.op
    return Complex(
        op.Mul(op.Cosh(x.real), op.Cos(x.imag)),
        op.Mul(op.Sinh(x.real), op.Sin(x.imag)),
    )


@complex_lowering("aten::sinh")
def sinh(ctx: Context, x: Complex) -> Complex:
    """That is sinh a cos b + i cosh a sin b."""
    op = ctx.op
    return Complex(
        op.Mul(op.Sinh(x.real), op.Cos(x.imag)),
        op.Mul(op.Cosh(x.real), op.Sin(x.imag)),
    )


@complex_lowering("aten::cos")
def cos(ctx: Context, x: Complex) -> Complex:
    """That is cosh of iz."""
    return cosh(ctx, Complex(ctx.op.Neg(x.imag), x.real))


@complex_lowering("aten::sin")
def sin(ctx: Context, x: Complex) -> Complex:
    """That is −i sinh of iz."""
    turned = sinh(ctx, Complex(ctx.op.Neg(x.imag), x.real))
    return Complex(turned.imag, ctx.op.Neg(turned.real))


@complex_lowering("aten::tanh")
def tanh(ctx: Context, x: Complex) -> Complex:
    """That is (sinh 2a + i sin 2b) / (cosh 2a + cos 2b), with tanh 2a where those overflow."""
    op = ctx.op
    a, b = op.Mul(x.real, 2.0), op.Mul(x.imag, 2.0)
    # Divided by cosh 2a: tanh never overflows, and 1/cosh goes to 0.
    over = op.Reciprocal(op.Cosh(a))
    below = op.Add(op.Mul(op.Cos(b), over), 1.0)
    return Complex(op.Div(op.Tanh(a), below), op.Div(op.Mul(op.Sin(b), over), below))


@complex_lowering("aten::log")
def log(ctx: Context, x: Complex) -> Complex:
    return Complex(ctx.op.Log(abs_(ctx, x)), angle(ctx, x))


@complex_lowering("aten::polar")
def polar(ctx: Context, abs: ir.Value, angle: ir.Value) -> Complex:
    return Complex(ctx.op.Mul(abs, ctx.op.Cos(angle)), ctx.op.Mul(abs, ctx.op.Sin(angle)))


@complex_lowering("aten::complex")
def complex_(ctx: Context, real: ir.Value, imag: ir.Value) -> Complex:
    zero = ctx.constant(0, real.dtype)
    # Adding zero broadcasts each part to the common shape.
    return (
        Complex(ctx.op.Add(real, ctx.op.Mul(imag, zero)), ctx.op.Add(imag, ctx.op.Mul(real, zero)))
        if (real.shape != imag.shape)
        else Complex(real, imag)
    )


@complex_lowering("aten::real")
def real(ctx: Context, x: Complex) -> ir.Value:
    return x.real


@complex_lowering("aten::imag")
def imag(ctx: Context, x: Complex) -> ir.Value:
    return x.imag


@complex_lowering("aten::conj", "aten::_conj", "aten::conj_physical", "aten::_conj_physical")
def conj(ctx: Context, x: Complex) -> Complex:
    return Complex(x.real, ctx.op.Neg(x.imag))


@complex_lowering("aten::resolve_conj", "aten::resolve_neg")
def resolve(ctx: Context, x: Complex) -> Complex:
    return x


@complex_lowering("aten::view_as_real")
def view_as_real(ctx: Context, x: Complex) -> ir.Value:
    return pack(ctx.op, x)


@complex_lowering("aten::view_as_complex")
def view_as_complex(ctx: Context, x: ir.Value) -> Complex:
    return split(ctx.op, x)


@complex_lowering("aten::matmul", "aten::mm", "aten::bmm")
def matmul(ctx: Context, x: Operand, other: Operand) -> Complex:
    (a, b), (c, d) = parts(ctx, x), parts(ctx, other)
    op = ctx.op
    if b is None:
        return Complex(op.MatMul(a, c), op.MatMul(a, d))
    if d is None:
        return Complex(op.MatMul(a, c), op.MatMul(b, c))
    return Complex(op.Sub(op.MatMul(a, c), op.MatMul(b, d)), op.Add(op.MatMul(a, d), op.MatMul(b, c)))


@complex_lowering("aten::eq.Tensor", "aten::eq.Scalar")
def eq(ctx: Context, x: Operand, other: Operand) -> ir.Value:
    dtype = _part_dtype(ctx, x, other)
    pairs = []
    for one in (x, other):
        a, b = (one.real, one.imag) if isinstance(one, (Complex, complex)) else (one, 0.0)
        pairs.append((ctx.value(a, dtype), ctx.value(b, dtype)))
    (a, b), (c, d) = pairs
    return ctx.op.And(ctx.op.Equal(a, c), ctx.op.Equal(b, d))


@complex_lowering("aten::ne.Tensor", "aten::ne.Scalar")
def ne(ctx: Context, x: Operand, other: Operand) -> ir.Value:
    return ctx.op.Not(eq(ctx, x, other))


@complex_lowering("aten::to.dtype", "aten::to.dtype_layout", "aten::_to_copy", "aten::to.device")
def to_complex(ctx: Context, x: Operand, *ignored: Any, **also_ignored: Any) -> Any:
    """Real to complex has imaginary part zero; the way back drops it, as torch does with a warning."""
    if isinstance(x, Complex):
        real, imag = ctx.cast(x.real, ctx.out_dtype), ctx.cast(x.imag, ctx.out_dtype)
        return Complex(real, imag) if ctx.out.dtype.startswith("complex") else real
    real = ctx.cast(x, ctx.out_dtype)
    return Complex(real, ctx.op.Mul(real, 0.0))


@complex_lowering("aten::where.self")
def where(ctx: Context, condition: ir.Value, x: Operand, other: Operand) -> Complex:
    zero = ctx.constant(0, ctx.out_dtype)
    (a, b), (c, d) = parts(ctx, x), parts(ctx, other)
    return Complex(
        ctx.op.Where(condition, a, c),
        ctx.op.Where(condition, zero if b is None else b, zero if d is None else d),
    )


@complex_lowering("aten::full", "aten::zeros", "aten::ones")
def filled(ctx: Context, size: Any, fill_value: Any = None, **options: Any) -> Complex:
    number = {"aten::zeros": 0, "aten::ones": 1}.get(ctx.call.key, fill_value)
    number = complex(number)
    return Complex(ctx.full(size, number.real, ctx.out_dtype), ctx.full(size, number.imag, ctx.out_dtype))


@complex_lowering("aten::pow.Tensor_Scalar")
def pow_(ctx: Context, x: Complex, exponent: Any) -> Complex:
    """A small whole power by multiplication, any other through exp and log."""
    if isinstance(exponent, (int, float)) and exponent in (2, 3):
        square = mul(ctx, x, x)
        return square if exponent == 2 else mul(ctx, square, x)
    return exp(ctx, mul(ctx, log(ctx, x), exponent))


@complex_lowering("aten::sqrt")
def sqrt(ctx: Context, x: Complex) -> Complex:
    """The root with non-negative real part: √((|x| ± a) / 2), the sign of b on the imaginary part."""
    op = ctx.op
    size = abs_(ctx, x)
    real = op.Sqrt(op.Max(op.Mul(op.Add(size, x.real), 0.5), 0.0))
    imag = op.Sqrt(op.Max(op.Mul(op.Sub(size, x.real), 0.5), 0.0))
    return Complex(real, op.Where(op.Less(x.imag, 0.0), op.Neg(imag), imag))


@complex_lowering("aten::sgn")
def sgn(ctx: Context, x: Complex) -> Complex:
    size = abs_(ctx, x)
    safe = ctx.op.Where(ctx.op.Equal(size, 0.0), ctx.constant(1.0, size.dtype), size)
    return Complex(ctx.op.Div(x.real, safe), ctx.op.Div(x.imag, safe))
