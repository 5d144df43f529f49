"""torch.fft: every transform is one of three (complex to complex, real to complex, complex to real) on resized axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import onnx_ir as ir

from onnx_lab.lower.complex import Complex
from onnx_lab.lower.context import Context
from onnx_lab.lower.registry import complex_lowering, lowering
from onnx_lab.ops.spectral import fft_c2c, fft_c2r, fft_r2c

Operand = Complex | ir.Value
Dims = Sequence[int] | int | None

# Torch's norm by name as the code of the kernels: 0 none, 1 by the root of the length, 2 by the length.
_FORWARD = {None: 0, "backward": 0, "ortho": 1, "forward": 2}
_INVERSE = {None: 2, "backward": 2, "ortho": 1, "forward": 0}


def _any_part(x: Operand) -> ir.Value:
    return x.real if isinstance(x, Complex) else x


def _each_part(x: Operand, change: Callable[[ir.Value], ir.Value]) -> Operand:
    return Complex(change(x.real), change(x.imag)) if isinstance(x, Complex) else change(x)


def _floating(ctx: Context, x: Operand) -> Operand:
    """Integers are transformed in the type of the result's parts."""
    return _each_part(x, lambda one: ctx.cast(one, ctx.out_dtype))


def _conjugate(ctx: Context, x: Operand) -> Operand:
    return Complex(x.real, ctx.op.Neg(x.imag)) if isinstance(x, Complex) else x


def _as_complex(ctx: Context, x: Operand) -> Complex:
    return x if isinstance(x, Complex) else Complex(x, ctx.op.Mul(x, 0.0))


def _resized(ctx: Context, x: Operand, dim: int, size: int | None) -> Operand:
    """An axis cut, or filled with zeros at its end, to ``size``; None and −1 leave it as it is."""
    if size is None or size == -1:
        return x
    ctx.fixed(size, "n")
    axis = ctx.axis(_any_part(x), dim)
    have = ctx.fixed_size(_any_part(x), axis, "the transformed axis")
    if have == size:
        return x
    if have > size:
        return _each_part(x, lambda one: ctx.op.Slice(one, [0], [size], [axis]))
    pads = [0] * (2 * ctx.rank(_any_part(x)))
    pads[len(pads) // 2 + axis] = size - have
    return _each_part(x, lambda one: ctx.op.Pad(one, pads))


def _axes(ctx: Context, x: Operand, s: Sequence[int] | None, dim: Dims) -> tuple[list[int], list[int | None]]:
    """Transformed axes with the sizes asked for: without axes the last ones of s, or all."""
    rank = ctx.rank(_any_part(x))
    if dim is None:
        axes = list(range(rank - len(s), rank)) if s is not None else list(range(rank))
    else:
        axes = [ctx.axis(_any_part(x), one) for one in ([dim] if isinstance(dim, int) else dim)]
    return axes, list(s) if s is not None else [None] * len(axes)


def _c2c(ctx: Context, x: Operand, s: Sequence[int] | None, dim: Dims, norm: str | None, forward: bool) -> Complex:
    x = _floating(ctx, x)
    axes, sizes = _axes(ctx, x, s, dim)
    for axis, size in zip(axes, sizes, strict=True):
        x = _resized(ctx, x, axis, size)
    code = (_FORWARD if forward else _INVERSE)[norm]
    if not axes:
        return _as_complex(ctx, x)
    if isinstance(x, Complex):
        return fft_c2c(ctx, x, axes, code, forward)
    made = fft_r2c(ctx, x, axes[-1:], code, False)
    if not forward:
        made = Complex(made.real, ctx.op.Neg(made.imag))
    return fft_c2c(ctx, made, axes[:-1], code, forward)


def _r2c(ctx: Context, x: Operand, s: Sequence[int] | None, dim: Dims, code: int, conjugate: bool) -> Complex:
    x = _floating(ctx, x)
    axes, sizes = _axes(ctx, x, s, dim)
    for axis, size in zip(axes, sizes, strict=True):
        x = _resized(ctx, x, axis, size)
    assert isinstance(x, ir.Value)  # torch refuses complex input
    made = fft_r2c(ctx, x, axes, code, True)
    return Complex(made.real, ctx.op.Neg(made.imag)) if conjugate else made


def _c2r(ctx: Context, x: Operand, s: Sequence[int] | None, dim: Dims, code: int, conjugate: bool) -> ir.Value:
    x = _floating(ctx, x)
    axes, sizes = _axes(ctx, x, s, dim)
    last = sizes[-1]
    if last is None or last == -1:
        last = 2 * (ctx.fixed_size(_any_part(x), axes[-1], "the transformed axis") - 1)
    last = ctx.fixed(last, "n")
    for axis, size in zip(axes, [*sizes[:-1], last // 2 + 1], strict=True):
        x = _resized(ctx, x, axis, size)
    x = _conjugate(ctx, x) if conjugate else x
    return fft_c2r(ctx, _as_complex(ctx, x), axes, code, last)


def _single(transform: Callable[..., Any]) -> Callable[..., Any]:
    def one_axis(ctx: Context, x: Operand, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
        return transform(ctx, x, None if n is None else [n], [dim], norm)

    return one_axis


def _plane(transform: Callable[..., Any]) -> Callable[..., Any]:
    def two_axes(
        ctx: Context, x: Operand, s: Sequence[int] | None = None, dim: Dims = (-2, -1), norm: str | None = None
    ) -> Any:
        return transform(ctx, x, s, dim, norm)

    return two_axes


def _many(transform: Callable[..., Any]) -> Callable[..., Any]:
    def axes(
        ctx: Context, x: Operand, s: Sequence[int] | None = None, dim: Dims = None, norm: str | None = None
    ) -> Any:
        return transform(ctx, x, s, dim, norm)

    return axes


TRANSFORMS: dict[str, Callable[..., Any]] = {
    "fft": lambda ctx, x, s, dim, norm: _c2c(ctx, x, s, dim, norm, True),
    "ifft": lambda ctx, x, s, dim, norm: _c2c(ctx, x, s, dim, norm, False),
    "rfft": lambda ctx, x, s, dim, norm: _r2c(ctx, x, s, dim, _FORWARD[norm], False),
    "irfft": lambda ctx, x, s, dim, norm: _c2r(ctx, x, s, dim, _INVERSE[norm], False),
    "hfft": lambda ctx, x, s, dim, norm: _c2r(ctx, x, s, dim, _FORWARD[norm], True),
    "ihfft": lambda ctx, x, s, dim, norm: _r2c(ctx, x, s, dim, _INVERSE[norm], True),
}
for name, transform in TRANSFORMS.items():
    for suffix, form in (("", _single), ("2", _plane), ("n", _many)):
        complex_lowering(f"aten::fft_{name}{suffix}")(form(transform))
        if name in ("irfft", "hfft"):  # the only ones that may have neither a complex operand nor a complex result
            lowering(f"aten::fft_{name}{suffix}")(form(transform))
