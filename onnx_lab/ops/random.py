"""Random numbers: uniform, normal, whole, and the distributions made from them; dropout and noisy slopes.

No call has a seed: every run gives other numbers, as in eager mode. Up to opset 21 the numbers come from
RandomUniform and RandomNormal. ONNX Runtime has no kernels for their versions of opset 22; from there on a
Dropout draws a key of 64 random bits, and SplitMix64 makes the numbers from the key and their places.
ONNX's Bernoulli is not used: ONNX Runtime draws ones with probability 1 - p.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_lab.lower.context import Context, Size
from onnx_lab.lower.registry import lowering

INT64, UINT64, BOOL = ir.DataType.INT64, ir.DataType.UINT64, ir.DataType.BOOL
FLOAT, DOUBLE = ir.DataType.FLOAT, ir.DataType.DOUBLE
Sizes = Sequence[Size]

_FIRST_WITHOUT_KERNELS = 22
# Uniform numbers are multiples of 2^-digits, as many as the type's significand has: none rounds up to 1.
_DIGITS = {DOUBLE: 53, FLOAT: 24, ir.DataType.FLOAT16: 11, ir.DataType.BFLOAT16: 8}


@dataclass(frozen=True, slots=True)
class Form:
    """The shape of what is drawn: as a 1-D INT64 value, and its dims as far as they are known."""

    vector: ir.Value
    dims: tuple[Any, ...]

    @classmethod
    def of(cls, ctx: Context, sizes: Sizes) -> Form:
        return cls(ctx.vector(list(sizes)), tuple(size if isinstance(size, int) else None for size in sizes))

    @classmethod
    def like(cls, ctx: Context, x: ir.Value) -> Form:
        return cls(ctx.shape(x), tuple(x.shape or ()))

    @property
    def known(self) -> list[int] | None:
        found = [dim for dim in self.dims if isinstance(dim, int)]
        return found if len(found) == len(self.dims) else None


def _wide(dtype: ir.DataType) -> ir.DataType:
    """The type that numbers of ``dtype`` are computed in."""
    return DOUBLE if dtype == DOUBLE else FLOAT


# -- the source of all numbers --------------------------------------------------------------------------


def _drawn(ctx: Context, kind: str, form: Form, dtype: ir.DataType) -> ir.Value:
    """RandomUniform or RandomNormal of a shape known now or at run time."""
    if form.known is not None:
        made: ir.Value = ctx.op.emit(kind, [], shape=form.known, dtype=dtype)
    else:
        made = ctx.op.emit(f"{kind}Like", [ctx.op.ConstantOfShape(form.vector)], dtype=dtype)
    made.shape = ir.Shape(form.dims)
    return made


def _key(ctx: Context) -> ir.Value:
    """64 random bits as a 0-D UINT64: which of 64 ones a Dropout keeps.

    The mask must be read, not the result: ONNX Runtime removes a Dropout whose mask nobody reads.
    """
    ones = ctx.constant(np.ones(64, np.float32))
    _, kept = ctx.op.Dropout(ones, ctx.constant(0.5, FLOAT), ctx.constant(True, BOOL), outputs=2)
    bits = ctx.op.Where(kept, ctx.constant(np.left_shift(np.int64(1), np.arange(64))), ctx.constant(np.asarray(0)))
    return ctx.cast(ctx.op.ReduceSum(bits, [0], keepdims=0), UINT64)


def _word(ctx: Context, number: int) -> ir.Value:
    return ctx.constant(np.asarray(number, dtype=np.uint64), UINT64)


def _words(ctx: Context, form: Form) -> ir.Value:
    """64 random bits a place, as UINT64: SplitMix64 (Steele, Lea, Flood 2014, figures 16 and 17).

    The state of place i is key + (i + 1) · γ; two rounds of xor-shift and multiply and a last xor-shift mix it.
    """
    op, known = ctx.op, form.known
    count = ctx.constant(np.asarray(math.prod(known))) if known is not None else op.ReduceProd(form.vector, keepdims=0)
    places = op.Range(ctx.constant(np.asarray(1)), op.Add(count, 1), ctx.constant(np.asarray(1)))
    z = op.Add(op.Mul(ctx.cast(places, UINT64), _word(ctx, 0x9E3779B97F4A7C15)), _key(ctx))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z = op.Mul(op.BitwiseXor(z, _right(ctx, z, shift)), _word(ctx, factor))
    z = op.BitwiseXor(z, _right(ctx, z, 31))
    if len(form.dims) != 1:
        z = op.Reshape(z, form.vector, allowzero=1)
    z.shape = ir.Shape(form.dims)
    return z


def _right(ctx: Context, z: ir.Value, count: int) -> ir.Value:
    return ctx.op.BitShift(z, _word(ctx, count), direction="RIGHT")


def uniform(ctx: Context, form: Form, dtype: ir.DataType) -> ir.Value:
    """Uniform in [0, 1) with the digits of ``dtype``, as FLOAT or DOUBLE."""
    wide, digits = _wide(dtype), _DIGITS[dtype]
    if ctx.opset >= _FIRST_WITHOUT_KERNELS:
        high = ctx.cast(_right(ctx, _words(ctx, form), 64 - digits), wide)
        return ctx.op.Mul(high, ctx.constant(2.0**-digits, wide))
    made = _drawn(ctx, "RandomUniform", form, wide)
    if wide == dtype:
        return made
    scale = ctx.constant(2.0**digits, wide)
    return ctx.op.Div(ctx.op.Floor(ctx.op.Mul(made, scale)), scale)


def positive(ctx: Context, form: Form, dtype: ir.DataType) -> ir.Value:
    """Uniform in (0, 1), for logarithms."""
    wide = _wide(dtype)
    return ctx.op.Max(uniform(ctx, form, wide), ctx.constant(2.0 ** -(_DIGITS[wide] + 8), wide))


def normal(ctx: Context, form: Form, dtype: ir.DataType) -> ir.Value:
    """Standard normal, as FLOAT or DOUBLE: from uniform u and v by √(-2 ln u) · cos 2πv (Box, Muller 1958)."""
    op, wide = ctx.op, _wide(dtype)
    if ctx.opset < _FIRST_WITHOUT_KERNELS:
        return _drawn(ctx, "RandomNormal", form, wide)
    word = _words(ctx, form)
    # The upper half of a word is the radius, in (0, 1]; the lower half the angle.
    half = _word(ctx, 32)
    upper = op.Add(ctx.cast(_right(ctx, word, 32), wide), 1.0)
    lower = ctx.cast(_right(ctx, op.BitShift(word, half, direction="LEFT"), 32), wide)
    radius = op.Sqrt(op.Mul(op.Log(op.Min(op.Mul(upper, 2.0**-32), 1.0)), -2.0))
    return op.Mul(radius, op.Cos(op.Mul(lower, math.tau * 2.0**-32)))


def whole(ctx: Context, form: Form, low: Size, high: Size) -> ir.Value:
    """Uniform whole numbers from ``low`` to ``high`` - 1, as INT64."""
    op = ctx.op
    if isinstance(low, int) and isinstance(high, int):
        if high - low > 2**53:
            return _whole_of_many(ctx, form, low, high)
        span: Size = high - low
    else:
        span = op.Sub(ctx.value(high, INT64), ctx.value(low, INT64))
    scaled = op.Mul(uniform(ctx, form, DOUBLE), ctx.value(span, DOUBLE))
    made = ctx.cast(op.Floor(scaled), INT64)
    return made if isinstance(low, int) and low == 0 else op.Add(made, ctx.value(low, INT64))


def _whole_of_many(ctx: Context, form: Form, low: int, high: int) -> ir.Value:
    """More numbers than a double tells apart: the rest of a word of 63 bits, or all of a word of 64."""
    op, span = ctx.op, high - low
    if 2**63 < span < 2**64 - 1:
        ctx.unsupported("high", high, "draw from at most 2⁶³ numbers")
    top = 31 if span <= 2**63 else 32
    upper, lower = (ctx.cast(op.Floor(op.Mul(uniform(ctx, form, DOUBLE), 2.0**bits)), INT64) for bits in (top, 32))
    word = op.Add(op.Mul(upper, 2**32), lower)
    if span > 2**63:
        return word
    rest = op.Mod(word, span) if span < 2**63 else word
    return op.Add(rest, low) if low else rest


def _scaled(ctx: Context, x: ir.Value, factor: float, shift: float) -> ir.Value:
    """X · factor + shift, without steps that change nothing."""
    x = x if factor == 1 else ctx.op.Mul(x, ctx.constant(factor, x.dtype))
    return x if shift == 0 else ctx.op.Add(x, ctx.constant(shift, x.dtype))


# -- shapes given, or those of another tensor ------------------------------------------------------------

_SOURCES = {"rand": uniform, "randn": normal}


def _of_size(source: Any) -> Any:
    def random_of_size(
        ctx: Context,
        size: Sizes,
        *,
        generator: None = None,
        dtype: ir.DataType | None = None,
        layout: str | None = None,
        device: str | None = None,
        pin_memory: bool | None = None,
    ) -> ir.Value:
        return ctx.cast(source(ctx, Form.of(ctx, size), ctx.out_dtype), ctx.out_dtype)

    return random_of_size


def _of_other(source: Any) -> Any:
    def random_like(
        ctx: Context,
        x: ir.Value,
        *,
        generator: None = None,
        dtype: ir.DataType | None = None,
        layout: str | None = None,
        device: str | None = None,
        pin_memory: bool | None = None,
        memory_format: str | None = None,
    ) -> ir.Value:
        return ctx.cast(source(ctx, Form.like(ctx, x), ctx.out_dtype), ctx.out_dtype)

    return random_like


for name, source in _SOURCES.items():
    lowering(f"aten::{name}", f"aten::{name}.generator")(_of_size(source))
    lowering(f"aten::{name}_like", f"aten::{name}_like.generator")(_of_other(source))


@lowering("aten::randint", "aten::randint.generator")
def randint(
    ctx: Context,
    high: Size,
    size: Sizes,
    *,
    generator: None = None,
    dtype: Any = 4,  # the number of int64 in the schema; the captured result tells the type
    layout: str | None = None,
    device: str | None = None,
    pin_memory: bool | None = None,
) -> ir.Value:
    return ctx.cast(whole(ctx, Form.of(ctx, size), 0, high), ctx.out_dtype)


@lowering("aten::randint.low", "aten::randint.low_generator")
def randint_low(
    ctx: Context,
    low: Size,
    high: Size,
    size: Sizes,
    *,
    generator: None = None,
    dtype: Any = 4,
    layout: str | None = None,
    device: str | None = None,
    pin_memory: bool | None = None,
) -> ir.Value:
    return ctx.cast(whole(ctx, Form.of(ctx, size), low, high), ctx.out_dtype)


@lowering("aten::randint_like", "aten::randint_like.generator", "aten::randint_like.Tensor")
def randint_like(
    ctx: Context,
    x: ir.Value,
    high: Size,
    *,
    generator: None = None,
    dtype: ir.DataType | None = None,
    layout: str | None = None,
    device: str | None = None,
    pin_memory: bool | None = None,
    memory_format: str | None = None,
) -> ir.Value:
    return ctx.cast(whole(ctx, Form.like(ctx, x), 0, high), ctx.out_dtype)


@lowering("aten::randint_like.low_dtype", "aten::randint_like.low_generator_dtype")
def randint_like_low(
    ctx: Context,
    x: ir.Value,
    low: Size,
    high: Size,
    *,
    generator: None = None,
    dtype: ir.DataType | None = None,
    layout: str | None = None,
    device: str | None = None,
    pin_memory: bool | None = None,
    memory_format: str | None = None,
) -> ir.Value:
    return ctx.cast(whole(ctx, Form.like(ctx, x), low, high), ctx.out_dtype)


@lowering("aten::randperm", "aten::randperm.generator")
def randperm(
    ctx: Context,
    n: Size,
    *,
    generator: None = None,
    dtype: Any = 4,
    layout: str | None = None,
    device: str | None = None,
    pin_memory: bool | None = None,
) -> ir.Value:
    """The order of n random numbers."""
    keys = uniform(ctx, Form.of(ctx, [n]), DOUBLE)
    _, order = ctx.op.TopK(keys, ctx.vector(n), largest=0, outputs=2)
    return ctx.cast(order, ctx.out_dtype)


# -- distributions --------------------------------------------------------------------------------------


def events(ctx: Context, form: Form, p: ir.Value | float) -> ir.Value:
    """True with probability p: where a uniform number is below p."""
    double = isinstance(p, ir.Value) and p.dtype == DOUBLE
    drawn = uniform(ctx, form, DOUBLE if double else FLOAT)
    return ctx.op.Less(drawn, ctx.value(p, drawn.dtype))


@lowering("aten::bernoulli")
def bernoulli(ctx: Context, x: ir.Value, *, generator: None = None) -> ir.Value:
    return ctx.cast(events(ctx, Form.like(ctx, x), x), ctx.out_dtype)


@lowering("aten::bernoulli.p", "aten::bernoulli.Tensor")
def bernoulli_p(ctx: Context, x: ir.Value, p: Any = 0.5, *, generator: None = None) -> ir.Value:
    return ctx.cast(events(ctx, Form.like(ctx, x), p), ctx.out_dtype)


@lowering("aten::uniform")
def uniform_(ctx: Context, x: ir.Value, from_: float = 0.0, to: float = 1.0, *, generator: None = None) -> ir.Value:
    drawn = uniform(ctx, Form.like(ctx, x), ctx.out_dtype)
    return ctx.cast(_scaled(ctx, drawn, to - from_, from_), ctx.out_dtype)


@lowering("aten::normal_functional")
def normal_functional(
    ctx: Context, x: ir.Value, mean: float = 0.0, std: float = 1.0, *, generator: None = None
) -> ir.Value:
    return ctx.cast(_scaled(ctx, normal(ctx, Form.like(ctx, x), ctx.out_dtype), std, mean), ctx.out_dtype)


@lowering("aten::normal.float_float")
def normal_of_size(
    ctx: Context,
    mean: float,
    std: float,
    size: Sizes,
    *,
    generator: None = None,
    dtype: ir.DataType | None = None,
    layout: str | None = None,
    device: str | None = None,
    pin_memory: bool | None = None,
) -> ir.Value:
    return ctx.cast(_scaled(ctx, normal(ctx, Form.of(ctx, size), ctx.out_dtype), std, mean), ctx.out_dtype)


@lowering("aten::normal.Tensor_Tensor", "aten::normal.Tensor_float")
def normal_about(ctx: Context, mean: ir.Value, std: Any = 1.0, *, generator: None = None) -> ir.Value:
    return _normal(ctx, mean, std)


@lowering("aten::normal.float_Tensor")
def normal_spread(ctx: Context, mean: float, std: ir.Value, *, generator: None = None) -> ir.Value:
    return _normal(ctx, mean, std)


def _normal(ctx: Context, mean: Any, std: Any) -> ir.Value:
    """Mean + std · z for each element of the shape that the two have together."""
    tensors = [one for one in (mean, std) if isinstance(one, ir.Value)]
    together = tensors[0]
    if len(tensors) == 2 and not _same_shape(*tensors):
        together = ctx.op.Add(*(ctx.cast(one, _wide(ctx.out_dtype)) for one in tensors))
    drawn = normal(ctx, Form.like(ctx, together), ctx.out_dtype)
    mean, std = (ctx.value(one, drawn.dtype) for one in (mean, std))
    return ctx.cast(ctx.op.Add(ctx.op.Mul(drawn, std), mean), ctx.out_dtype)


def _same_shape(a: ir.Value, b: ir.Value) -> bool:
    return a.shape == b.shape and a.shape is not None and all(isinstance(dim, int) for dim in a.shape)


@lowering("aten::log_normal")
def log_normal(ctx: Context, x: ir.Value, mean: float = 1.0, std: float = 2.0, *, generator: None = None) -> ir.Value:
    drawn = normal(ctx, Form.like(ctx, x), ctx.out_dtype)
    return ctx.cast(ctx.op.Exp(_scaled(ctx, drawn, std, mean)), ctx.out_dtype)


@lowering("aten::exponential")
def exponential(ctx: Context, x: ir.Value, lambd: float = 1.0, *, generator: None = None) -> ir.Value:
    return ctx.cast(waits(ctx, Form.like(ctx, x), ctx.out_dtype, lambd), ctx.out_dtype)


def waits(ctx: Context, form: Form, dtype: ir.DataType, rate: float = 1.0) -> ir.Value:
    """Exponential: -ln(u) / λ, never 0."""
    drawn = ctx.op.Log(positive(ctx, form, dtype))
    return ctx.op.Div(drawn, ctx.constant(-rate, drawn.dtype))


@lowering("aten::cauchy")
def cauchy(ctx: Context, x: ir.Value, median: float = 0.0, sigma: float = 1.0, *, generator: None = None) -> ir.Value:
    """Median + σ tan(π (u - ½))."""
    drawn = positive(ctx, Form.like(ctx, x), ctx.out_dtype)
    angle = ctx.op.Mul(ctx.op.Sub(drawn, 0.5), math.pi)
    return ctx.cast(_scaled(ctx, ctx.op.Tan(angle), sigma, median), ctx.out_dtype)


@lowering("aten::geometric")
def geometric(ctx: Context, x: ir.Value, p: float, *, generator: None = None) -> ir.Value:
    """The number of trials up to the first success: ⌈ln u / ln(1 - p)⌉."""
    drawn = ctx.op.Log(positive(ctx, Form.like(ctx, x), FLOAT if x.dtype != DOUBLE else DOUBLE))
    return ctx.cast(ctx.op.Ceil(ctx.op.Div(drawn, ctx.constant(math.log1p(-p), drawn.dtype))), ctx.out_dtype)


def _largest(dtype: ir.DataType) -> int:
    """The largest number that a tensor filled with random whole numbers holds."""
    if dtype in _DIGITS:
        return 1 << _DIGITS[dtype]
    return 1 if dtype == BOOL else int(np.iinfo(dtype.numpy()).max)


@lowering("aten::random")
def random(ctx: Context, x: ir.Value, *, generator: None = None) -> ir.Value:
    return random_from(ctx, x, 0, None)


@lowering("aten::random.from")
def random_from(ctx: Context, x: ir.Value, from_: Size, to: Size | None, *, generator: None = None) -> ir.Value:
    """Whole numbers below ``to``, else up to the largest that the type holds."""
    end = _largest(ctx.out_dtype) + 1 if to is None else to
    return ctx.cast(whole(ctx, Form.like(ctx, x), from_, end), ctx.out_dtype)


@lowering("aten::random.to")
def random_to(ctx: Context, x: ir.Value, to: Size, *, generator: None = None) -> ir.Value:
    return random_from(ctx, x, 0, to)


@lowering("aten::multinomial")
def multinomial(
    ctx: Context, x: ir.Value, num_samples: Size, replacement: bool = False, *, generator: None = None
) -> ir.Value:
    """Places drawn by weight. With replacement: how many running totals a random part of the total has passed.

    Without: the first places where independent events of these rates happen (Efraimidis, Spirakis 2006).
    """
    op = ctx.op
    weights = ctx.cast(x, DOUBLE)
    if not replacement:
        rates = op.Div(weights, waits(ctx, Form.like(ctx, x), DOUBLE))
        return op.TopK(rates, ctx.vector(num_samples), axis=-1, outputs=2)[1]
    totals = op.CumSum(weights, ctx.constant(np.asarray(ctx.rank(x) - 1)))
    every = op.Slice(totals, [-1], [np.iinfo(np.int64).max], [-1])
    rows = ctx.sizes(x)[:-1]
    parts = op.Mul(uniform(ctx, Form.of(ctx, [*rows, num_samples]), DOUBLE), every)
    passed = op.LessOrEqual(op.Unsqueeze(totals, [-2]), op.Unsqueeze(parts, [-1]))
    return op.ReduceSum(ctx.cast(passed, INT64), [-1], keepdims=0)
