"""Fourier transforms. A transform of fixed length is a product with its cosine and sine matrix.

The runtime's own DFT operator loses several digits for lengths that are no power of two, and its STFT
is slower than a convolution; matrices are exact to rounding and fast up to a few thousand points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_lab.lower.complex import Complex
from onnx_lab.lower.context import Context
from onnx_lab.lower.registry import complex_lowering

_LONGEST = 4096  # a matrix of this length takes 128 MB; beyond it the memory is not worth it


def _angles(rows: int, columns: int, length: int) -> np.ndarray[Any, Any]:
    """2π·row·column / length, reduced modulo the period first so that no digits are lost."""
    product = np.outer(np.arange(rows), np.arange(columns)) % length
    return 2 * math.pi * product / length


def _scale(normalization: int, length: int) -> float:
    """Torch's codes: 0 none, 1 by the root of the length, 2 by the length."""
    return {0: 1.0, 1: 1 / math.sqrt(length), 2: 1 / length}[normalization]


def _length(ctx: Context, x: ir.Value, dim: int) -> int:
    length = ctx.fixed_size(x, dim, "the transformed axis")
    if length > _LONGEST:
        ctx.unsupported("the transformed axis", f"{length} points", f"transform at most {_LONGEST} points")
    return length


def _turns(ctx: Context, x: ir.Value, dim: int, normalization: int, half: bool = False) -> tuple[ir.Value, ir.Value]:
    """Cosines and sines of all products of two places of an axis, scaled; columns of half the places if asked.

    A dynamic size is counted at run time, in double precision.
    """
    op, size = ctx.op, ctx.size(x, dim)
    if isinstance(size, int):
        length = _length(ctx, x, dim)
        angles, scale = _angles(length, length // 2 + 1 if half else length, length), _scale(normalization, length)
        return _matrix(ctx, np.cos(angles) * scale, x), _matrix(ctx, np.sin(angles) * scale, x)
    columns = op.Add(op.Div(size, 2), 1) if half else size
    rows, across = (op.Range(0, end, 1) for end in (size, columns))
    product = op.Mod(op.Mul(ctx.unsqueeze(rows, 1), across), size)
    length_ = ctx.cast(size, ir.DataType.DOUBLE)
    angle = op.Div(op.Mul(ctx.cast(product, ir.DataType.DOUBLE), 2 * math.pi), length_)
    divisor = {0: None, 1: op.Sqrt(length_), 2: length_}[normalization]
    found = [op.Cos(angle), op.Sin(angle)]
    return tuple(ctx.cast(one if divisor is None else op.Div(one, divisor), x.dtype) for one in found)  # type: ignore[return-value]


def _matrix(ctx: Context, content: np.ndarray[Any, Any], like: ir.Value) -> ir.Value:
    assert like.dtype is not None
    return ctx.constant(content.astype(like.dtype.numpy()), like.dtype)


def _apply(ctx: Context, x: ir.Value, matrix: ir.Value, dim: int) -> ir.Value:
    """X times a matrix along one axis."""
    last = ctx.rank(x) - 1
    axis = ctx.axis(x, dim)
    return ctx.swap(ctx.op.MatMul(ctx.swap(x, axis, last), matrix), axis, last)


@complex_lowering("aten::_fft_r2c")
def fft_r2c(ctx: Context, x: ir.Value, dim: Sequence[int], normalization: int, onesided: bool) -> Complex:
    """Real to complex: the last of ``dim`` from real input, the others as complex transforms."""
    *rest, last = dim
    cosine, sine = _turns(ctx, x, last, normalization, half=onesided)
    made = Complex(_apply(ctx, x, cosine, last), ctx.op.Neg(_apply(ctx, x, sine, last)))
    return fft_c2c(ctx, made, rest, normalization, True)


@complex_lowering("aten::_fft_c2c")
def fft_c2c(ctx: Context, x: Complex, dim: Sequence[int], normalization: int, forward: bool) -> Complex:
    """Complex to complex, one axis after the other."""
    op = ctx.op
    for axis in dim:
        cosine, sine = _turns(ctx, x.real, axis, normalization)
        sine = op.Neg(sine) if forward else sine
        real = op.Sub(_apply(ctx, x.real, cosine, axis), _apply(ctx, x.imag, sine, axis))
        imag = op.Add(_apply(ctx, x.real, sine, axis), _apply(ctx, x.imag, cosine, axis))
        x = Complex(real, imag)
    return x


@complex_lowering("aten::_fft_c2r")
def fft_c2r(ctx: Context, x: Complex, dim: Sequence[int], normalization: int, last_dim_size: int) -> ir.Value:
    """Complex half spectrum to real: bins other than the first and the middle one count twice."""
    *rest, last = dim
    x = fft_c2c(ctx, x, rest, normalization, False)
    length = ctx.fixed(last_dim_size, "last_dim_size")
    bins = length // 2 + 1
    weight = np.full((bins, 1), 2.0)
    weight[0] = 1.0
    if length % 2 == 0:
        weight[-1] = 1.0
    angles, scale = _angles(bins, length, length), _scale(normalization, length)
    real = _apply(ctx, _first(ctx, x.real, last, bins), _matrix(ctx, np.cos(angles) * weight * scale, x.real), last)
    imag = _apply(ctx, _first(ctx, x.imag, last, bins), _matrix(ctx, np.sin(angles) * weight * scale, x.real), last)
    return ctx.op.Sub(real, imag)


@complex_lowering("prims::fft_r2c")
def prims_r2c(ctx: Context, x: ir.Value, *, dim: Sequence[int], onesided: bool) -> Complex:
    return fft_r2c(ctx, x, dim, 0, onesided)


@complex_lowering("prims::fft_c2c")
def prims_c2c(ctx: Context, x: Complex, *, dim: Sequence[int], forward: bool) -> Complex:
    return fft_c2c(ctx, x, dim, 0, forward)


@complex_lowering("prims::fft_c2r")
def prims_c2r(ctx: Context, x: Complex, *, dim: Sequence[int], last_dim_size: int) -> ir.Value:
    return fft_c2r(ctx, x, dim, 0, last_dim_size)


def _first(ctx: Context, x: ir.Value, dim: int, count: int) -> ir.Value:
    axis = ctx.axis(x, dim)
    return x if ctx.size(x, axis) == count else ctx.op.Slice(x, [0], [count], [axis])


def _window(ctx: Context, window: ir.Value | None, win_length: int, n_fft: int, dtype: ir.DataType) -> ir.Value:
    """The window centred in ``n_fft`` points; without one all ones."""
    left = (n_fft - win_length) // 2
    if window is None:
        content = np.zeros(n_fft)
        content[left : left + win_length] = 1
        return ctx.constant(content.astype(dtype.numpy()), dtype)
    if win_length == n_fft:
        return ctx.cast(window, dtype)
    return ctx.op.Pad(ctx.cast(window, dtype), [left, n_fft - win_length - left])


@complex_lowering("aten::stft")
def stft(
    ctx: Context,
    x: ir.Value,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: ir.Value | None = None,
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Complex:
    """A convolution with the windowed cosines and sines as kernels, ``hop_length`` as stride."""
    if isinstance(x, Complex) or align_to_window:
        ctx.unsupported("align_to_window" if align_to_window else "input", align_to_window or "a complex signal")
    assert x.dtype is not None
    hop, length = hop_length or n_fft // 4, win_length or n_fft
    bins = n_fft // 2 + 1 if onesided is None or onesided else n_fft
    angles = _angles(bins, n_fft, n_fft)
    basis = np.concatenate([np.cos(angles), -np.sin(angles)])[:, None, :]
    basis = basis * (1 / math.sqrt(n_fft) if normalized else 1.0)
    shaped = ctx.op.Mul(_matrix(ctx, basis, x), _window(ctx, window, length, n_fft, x.dtype))
    batched = ctx.rank(x) == 2
    signal = ctx.unsqueeze(x, 1) if batched else ctx.unsqueeze(x, [0, 1])
    spectrum = ctx.op.Conv(signal, shaped, strides=[hop])
    real, imag = ctx.op.Split(spectrum, [bins, bins], axis=1, outputs=2)
    if batched:
        return Complex(real, imag)
    return Complex(ctx.squeeze(real, 0), ctx.squeeze(imag, 0))


@complex_lowering("aten::istft")
def istft(
    ctx: Context,
    x: Complex,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: ir.Value | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> ir.Value:
    """Overlap-add by a transposed convolution, divided by the overlapped squared window."""
    if return_complex or isinstance(window, Complex):
        ctx.unsupported("return_complex", return_complex, "transform back to a real signal with a real window")
    hop, bins = hop_length or n_fft // 4, n_fft // 2 + 1
    # Of a whole spectrum torch reads the first half, too.
    x = Complex(_first(ctx, x.real, -2, bins), _first(ctx, x.imag, -2, bins))
    dtype = x.real.dtype or ir.DataType.FLOAT
    weight = np.full((bins, 1), 2.0)
    weight[0] = 1.0
    if n_fft % 2 == 0:
        weight[-1] = 1.0
    angles = _angles(bins, n_fft, n_fft)
    scale = (1 / math.sqrt(n_fft)) if normalized else 1 / n_fft
    basis = np.concatenate([np.cos(angles) * weight, -np.sin(angles) * weight])[:, None, :] * scale
    shaped = ctx.constant(basis.astype(dtype.numpy()), dtype)
    spread = _window(ctx, window, win_length or n_fft, n_fft, dtype)
    batched = ctx.rank(x.real) == 3
    real, imag = (one if batched else ctx.unsqueeze(one, 0) for one in (x.real, x.imag))
    stacked = ctx.op.Concat(real, imag, axis=1)
    signal = ctx.op.ConvTranspose(stacked, ctx.op.Mul(shaped, spread), strides=[hop])
    first = ctx.op.Slice(stacked, [0], [1], [1])
    ones = ctx.op.Add(ctx.op.Mul(first, 0.0), 1.0)
    squared = ctx.unsqueeze(ctx.op.Mul(spread, spread), [0, 1])
    envelope = ctx.op.ConvTranspose(ones, squared, strides=[hop])
    start = n_fft // 2 if center else 0
    end: Any = start + length if length is not None else (-(n_fft // 2) if center else np.iinfo(np.int64).max)
    cut = [ctx.op.Slice(one, [start], [end], [2]) for one in (signal, envelope)]
    made = ctx.squeeze(ctx.op.Div(*cut), [1] if batched else [0, 1])
    if length is None:
        return made
    missing = ctx.op.Max(ctx.op.Sub(ctx.constant([length]), ctx.shape(made, -1)), 0)
    zeros = ctx.constant([0] * (ctx.rank(made)))
    ends = ctx.op.Concat(ctx.constant([0] * (ctx.rank(made) - 1)), missing, axis=0) if batched else missing
    return ctx.op.Pad(made, ctx.op.Concat(zeros, ends, axis=0))
