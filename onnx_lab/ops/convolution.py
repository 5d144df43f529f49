"""Convolutions, plain and transposed, of 1 to 3 spatial axes."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnx_lab.lower.context import Context
from onnx_lab.lower.registry import lowering

Bias = ir.Value | None
Sizes = int | Sequence[int]


def per_axis(ctx: Context, sizes: Sizes, count: int, argument: str) -> list[int]:
    """One int for each spatial axis; a single one serves all."""
    fixed = ctx.fixed(sizes, argument)
    found = list(fixed) if isinstance(fixed, (list, tuple)) else [fixed]
    return found * count if len(found) == 1 else found


def _batched(ctx: Context, input: ir.Value, weight: ir.Value) -> tuple[ir.Value, bool]:
    """The input with a batch axis, and whether it had none."""
    single = ctx.rank(input) < ctx.rank(weight)
    return (ctx.unsqueeze(input, 0) if single else input), single


def convolve(
    ctx: Context,
    input: ir.Value,
    weight: ir.Value,
    bias: Bias,
    stride: Sizes,
    pads: Sequence[int],
    dilation: Sizes,
    groups: int,
) -> ir.Value:
    """``pads`` as ONNX has them: all begins, then all ends."""
    spatial = ctx.rank(weight) - 2
    x, single = _batched(ctx, input, weight)
    made = ctx.op.Conv(
        x,
        weight,
        *([] if bias is None else [bias]),
        strides=per_axis(ctx, stride, spatial, "stride"),
        pads=list(pads),
        dilations=per_axis(ctx, dilation, spatial, "dilation"),
        group=groups,
    )
    return ctx.squeeze(made, 0) if single else made


@lowering("aten::conv1d", "aten::conv2d", "aten::conv3d")
def conv(
    ctx: Context,
    input: ir.Value,
    weight: ir.Value,
    bias: Bias = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> ir.Value:
    pads = per_axis(ctx, padding, ctx.rank(weight) - 2, "padding")
    return convolve(ctx, input, weight, bias, stride, [*pads, *pads], dilation, groups)


@lowering("aten::conv1d.padding", "aten::conv2d.padding", "aten::conv3d.padding")
def conv_padding(
    ctx: Context,
    input: ir.Value,
    weight: ir.Value,
    bias: Bias = None,
    stride: Sizes = 1,
    padding: str = "valid",
    dilation: Sizes = 1,
    groups: int = 1,
) -> ir.Value:
    """With "same" the odd element of padding goes to the end."""
    spatial = ctx.rank(weight) - 2
    pads = [0] * 2 * spatial
    if padding == "same":
        kernel = [ctx.fixed_size(weight, axis + 2, "weight") for axis in range(spatial)]
        steps = per_axis(ctx, dilation, spatial, "dilation")
        total = [step * (size - 1) for step, size in zip(steps, kernel, strict=True)]
        pads = [*(one // 2 for one in total), *(one - one // 2 for one in total)]
    return convolve(ctx, input, weight, bias, stride, pads, dilation, groups)


def convolve_transposed(
    ctx: Context,
    input: ir.Value,
    weight: ir.Value,
    bias: Bias,
    stride: Sizes,
    padding: Sizes,
    output_padding: Sizes,
    groups: int,
    dilation: Sizes,
) -> ir.Value:
    """ONNX Runtime takes ``output_padding`` only below the stride; beyond it, an extra row is one row cropped less.

    Rows that no input reaches at all are zeros, to which only the bias is added.
    """
    spatial = ctx.rank(weight) - 2
    x, single = _batched(ctx, input, weight)
    pads, steps = per_axis(ctx, padding, spatial, "padding"), per_axis(ctx, stride, spatial, "stride")
    ends, extra = list(pads), per_axis(ctx, output_padding, spatial, "output_padding")
    unreached = [0] * spatial
    for axis in range(spatial):
        if extra[axis] >= steps[axis]:
            unreached[axis] = max(0, extra[axis] - ends[axis])
            ends[axis], extra[axis] = max(0, ends[axis] - extra[axis]), 0
    made = ctx.op.ConvTranspose(
        x,
        weight,
        *([] if bias is None or any(unreached) else [bias]),
        strides=steps,
        pads=[*pads, *ends],
        output_padding=extra,
        dilations=per_axis(ctx, dilation, spatial, "dilation"),
        group=groups,
    )
    if any(unreached):
        widths = [*[0] * spatial, *unreached]
        made = ctx.op.Pad(made, widths, ctx.constant(0.0, made.dtype), list(range(2, spatial + 2)))
        made = made if bias is None else ctx.op.Add(made, ctx.unsqueeze(bias, list(range(1, spatial + 1))))
    return ctx.squeeze(made, 0) if single else made


@lowering("aten::conv_transpose1d", "aten::conv_transpose2d.input", "aten::conv_transpose3d.input")
def conv_transpose(
    ctx: Context,
    input: ir.Value,
    weight: ir.Value,
    bias: Bias = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> ir.Value:
    return convolve_transposed(ctx, input, weight, bias, stride, padding, output_padding, groups, dilation)


@lowering("aten::convolution")
def convolution(
    ctx: Context,
    input: ir.Value,
    weight: ir.Value,
    bias: Bias,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
) -> ir.Value:
    """What decompositions call for any number of spatial axes, plain or transposed."""
    if transposed:
        return convolve_transposed(ctx, input, weight, bias, stride, padding, output_padding, groups, dilation)
    return conv(ctx, input, weight, bias, stride, padding, dilation, groups)


@lowering("aten::_convolution")
def convolution_with_flags(
    ctx: Context,
    input: ir.Value,
    weight: ir.Value,
    bias: Bias,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
    benchmark: bool,
    deterministic: bool,
    cudnn_enabled: bool,
    allow_tf32: bool,
) -> ir.Value:
    """The flags choose among algorithms; they change no result."""
    return convolution(ctx, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


@lowering("aten::_convolution.deprecated")
def convolution_deprecated(
    ctx: Context,
    input: ir.Value,
    weight: ir.Value,
    bias: Bias,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
    benchmark: bool,
    deterministic: bool,
    cudnn_enabled: bool,
) -> ir.Value:
    return convolution(ctx, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


@lowering("aten::conv_tbc")
def conv_tbc(ctx: Context, x: ir.Value, weight: ir.Value, bias: ir.Value, pad: int = 0) -> ir.Value:
    """Time first: x is (T, N, C_in), weight (K, C_in, C_out)."""
    made = ctx.op.Conv(ctx.transpose(x, [1, 2, 0]), ctx.transpose(weight, [2, 1, 0]), bias, pads=[pad, pad])
    return ctx.op.Transpose(made, perm=[2, 0, 1])
