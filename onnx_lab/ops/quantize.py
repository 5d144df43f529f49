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
