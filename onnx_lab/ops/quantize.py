"""Quantization: the operators that PyTorch's quantization flows leave in a program."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from onnx_lab.lower.context import Context
from onnx_lab.lower.registry import lowering

# Types that QuantizeLinear writes, with the range it saturates to.
_RANGES = {
    ir.DataType.INT8: (-128, 127),
    ir.DataType.UINT8: (0, 255),
    ir.DataType.INT16: (-32768, 32767),
    ir.DataType.UINT16: (0, 65535),
}
_FOUR_BITS = {(-8, 7): ir.DataType.INT4, (0, 15): ir.DataType.UINT4}


def _quantize(
    ctx: Context, x: ir.Value, scale: Any, zero_point: Any, low: int, high: int, dtype: ir.DataType, axis: int | None
) -> ir.Value:
    """round(x / scale) + zero_point, kept within ``low`` and ``high``."""
    if dtype not in _RANGES:
        ctx.unsupported("dtype", dtype, "quantize to int8, uint8, int16 or uint16")
    divisor, zero = ctx.value(scale, x.dtype), ctx.value(zero_point, dtype)
    made: ir.Value = ctx.op.QuantizeLinear(x, divisor, zero, axis=axis)
    if (low, high) == _RANGES[dtype]:
        return made
    wide = ctx.op.Clip(
        ctx.cast(made, ir.DataType.INT32), ctx.constant(low, ir.DataType.INT32), ctx.constant(high, ir.DataType.INT32)
    )
    return ctx.cast(wide, dtype)


def _dequantize(ctx: Context, x: ir.Value, scale: Any, zero_point: Any, axis: int | None, out: ir.DataType) -> ir.Value:
    step = ctx.value(scale, ir.DataType.FLOAT)
    zero = None if zero_point is None else ctx.value(zero_point, x.dtype)
    return ctx.cast(ctx.op.DequantizeLinear(x, step, zero, axis=axis), out)


@lowering("quantized_decomposed::quantize_per_tensor", "quantized_decomposed::quantize_per_tensor.tensor")
def quantize_per_tensor(
    ctx: Context, input: ir.Value, scale: Any, zero_point: Any, quant_min: int, quant_max: int, dtype: ir.DataType
) -> ir.Value:
    scale, zero_point = _scalars(ctx, scale, zero_point)
    return _quantize(ctx, input, scale, zero_point, quant_min, quant_max, dtype, None)


@lowering("quantized_decomposed::dequantize_per_tensor", "quantized_decomposed::dequantize_per_tensor.tensor")
def dequantize_per_tensor(
    ctx: Context,
    input: ir.Value,
    scale: Any,
    zero_point: Any,
    quant_min: int,
    quant_max: int,
    dtype: ir.DataType,
    *,
    out_dtype: ir.DataType | None = None,
) -> ir.Value:
    scale, zero_point = _scalars(ctx, scale, zero_point)
    return _dequantize(ctx, input, scale, zero_point, None, ctx.out_dtype)


def _scalars(ctx: Context, *numbers: Any) -> list[Any]:
    """One-element tensors as the 0-D values that the operators take."""
    return [ctx.reshape(one, []) if isinstance(one, ir.Value) and ctx.rank(one) else one for one in numbers]


@lowering("quantized_decomposed::quantize_per_channel")
def quantize_per_channel(
    ctx: Context,
    input: ir.Value,
    scales: ir.Value,
    zero_points: ir.Value,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: ir.DataType,
) -> ir.Value:
    return _quantize(ctx, input, scales, zero_points, quant_min, quant_max, dtype, ctx.axis(input, axis))


@lowering("quantized_decomposed::dequantize_per_channel")
def dequantize_per_channel(
    ctx: Context,
    input: ir.Value,
    scales: ir.Value,
    zero_points: ir.Value | None,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: ir.DataType,
    *,
    out_dtype: ir.DataType | None = None,
) -> ir.Value:
    return _dequantize(ctx, input, scales, zero_points, ctx.axis(input, axis), ctx.out_dtype)


# -- rounding to a quantized grid and back -----------------------------------------------------------------


def _stored_as(ctx: Context, low: int, high: int) -> ir.DataType:
    """The narrowest type that holds a range of quantized numbers; exactly four bits from opset 21 on."""
    if ctx.opset >= 21 and (low, high) in _FOUR_BITS:
        return _FOUR_BITS[low, high]
    fitting = [dtype for dtype, (least, most) in _RANGES.items() if least <= low and high <= most]
    if not fitting:
        ctx.unsupported("quant_min", f"{low} to {high}", "quantize to at most 16 bits")
    return min(fitting, key=lambda dtype: dtype.bitwidth)


def _fake_quantize(
    ctx: Context, x: ir.Value, scale: Any, zero_point: Any, low: int, high: int, axis: int | None
) -> ir.Value:
    """QuantizeLinear and DequantizeLinear side by side, as runtimes look for them to compute in integers.

    Torch rounds the sum of quotient and zero point, ONNX the quotient: the two may differ by one step where
    a quotient lies exactly between two numbers and the zero point is odd.
    """
    dtype = _stored_as(ctx, low, high)
    data = ctx.cast(x, ir.DataType.FLOAT)
    step = ctx.value(scale, ir.DataType.FLOAT)
    if isinstance(zero_point, ir.Value) and zero_point.dtype is not None and zero_point.dtype.is_floating_point():
        return ctx.cast(_rounded(ctx, data, step, zero_point, (low, high), axis), x.dtype)
    zero = ctx.value(zero_point, dtype)
    if (low, high) != _RANGES.get(dtype) and dtype not in _FOUR_BITS.values():
        data = _within(ctx, data, step, ctx.cast(zero, ir.DataType.FLOAT), (low, high), axis)
    stored = ctx.op.QuantizeLinear(data, step, zero, axis=axis)
    return ctx.cast(ctx.op.DequantizeLinear(stored, step, zero, axis=axis), x.dtype)


def _along(ctx: Context, x: ir.Value, values: ir.Value, axis: int | None) -> ir.Value:
    """Values per channel so that they broadcast along an axis."""
    rest = 0 if axis is None else ctx.rank(x) - 1 - axis
    return ctx.unsqueeze(values, list(range(1, 1 + rest))) if rest and ctx.rank(values) else values


def _within(
    ctx: Context, x: ir.Value, scale: ir.Value, zero: ir.Value, limits: tuple[int, int], axis: int | None
) -> ir.Value:
    """X kept where its quantized number stays within the limits, which are narrower than the stored type."""
    ends = [
        _along(ctx, x, ctx.op.Mul(ctx.op.Sub(ctx.constant(float(one), zero.dtype), zero), scale), axis)
        for one in limits
    ]
    return ctx.op.Min(ctx.op.Max(x, ends[0]), ends[1])


def _rounded(
    ctx: Context, x: ir.Value, scale: ir.Value, zero: ir.Value, limits: tuple[int, int], axis: int | None
) -> ir.Value:
    """(clamp(round(x / scale + zero)) − zero) · scale, with zero points that are no whole numbers."""
    op = ctx.op
    step, origin = (_along(ctx, x, one, axis) for one in (scale, ctx.cast(zero, ir.DataType.FLOAT)))
    grid = op.Round(op.Add(op.Mul(x, op.Reciprocal(step)), origin))
    return op.Mul(op.Sub(op.Clip(grid, float(limits[0]), float(limits[1])), origin), step)


@lowering("aten::fake_quantize_per_tensor_affine", "aten::fake_quantize_per_tensor_affine.tensor_qparams")
def fake_quantize_per_tensor(
    ctx: Context, x: ir.Value, scale: Any, zero_point: Any, quant_min: int, quant_max: int
) -> ir.Value:
    scale, zero_point = _scalars(ctx, scale, zero_point)
    return _fake_quantize(ctx, x, scale, zero_point, quant_min, quant_max, None)


@lowering("aten::fake_quantize_per_channel_affine")
def fake_quantize_per_channel(
    ctx: Context, x: ir.Value, scale: ir.Value, zero_point: ir.Value, axis: int, quant_min: int, quant_max: int
) -> ir.Value:
    return _fake_quantize(ctx, x, scale, zero_point, quant_min, quant_max, ctx.axis(x, axis))
