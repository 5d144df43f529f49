"""Sampling on grids, patches as columns and back."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_lab.lower.context import Context, Size
from onnx_lab.lower.registry import lowering

FLOAT = ir.DataType.FLOAT

# -- grids ------------------------------------------------------------------------------------------------

_MODES = ("bilinear", "nearest", "bicubic")
_MODES_20 = ("linear", "nearest", "cubic")
_FAR = 1e4  # of a range from -1 to 1
_PADDING = ("zeros", "border", "reflection")


@lowering("aten::grid_sampler", "aten::grid_sampler_2d", "aten::grid_sampler_3d")
def grid_sampler(
    ctx: Context,
    input: ir.Value,
    grid: ir.Value,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> ir.Value:
    """GridSample; volumes since opset 20, which also renamed the modes."""
    if ctx.rank(input) == 5:
        if ctx.opset < 20:
            ctx.unsupported("input", "a volume", "ask for opset 20 or newer")
        if _MODES[interpolation_mode] == "bicubic":
            ctx.unsupported("interpolation_mode", "bicubic on a volume")
    padding, mode = _PADDING[padding_mode], _MODES[interpolation_mode]
    made = ctx.op.GridSample(
        input,
        _within_reach(ctx, grid, padding),
        mode=(_MODES if ctx.opset < 20 else _MODES_20)[interpolation_mode],
        padding_mode=padding,
        align_corners=int(align_corners),
    )
    if mode == "bicubic" or (mode, padding) == ("bilinear", "zeros"):
        # Torch weighs with the coordinate itself: one that is not finite makes the result NaN.
        poison = ctx.op.ReduceSum(ctx.op.Mul(grid, 0.0), [-1], keepdims=0)
        made = ctx.op.Add(made, ctx.cast(ctx.unsqueeze(poison, 1), made.dtype))
    return made


def _within_reach(ctx: Context, grid: ir.Value, padding: str) -> ir.Value:
    """Coordinates that the runtime can turn into places: far outside is outside, NaN is before the first place."""
    if padding == "reflection":
        return grid
    known = ctx.op.Where(ctx.op.IsNaN(grid), ctx.constant(-_FAR, grid.dtype), grid)
    return ctx.op.Clip(known, ctx.constant(-_FAR, grid.dtype), ctx.constant(_FAR, grid.dtype))


@lowering("aten::affine_grid_generator")
def affine_grid_generator(ctx: Context, theta: ir.Value, size: Sequence[Size], align_corners: bool) -> ir.Value:
    """Each place (x, y, …, 1) times θᵀ, as a broadcast sum over the axes.

    AffineGrid is not used: for an axis of one element it gives −1 where torch gives 0.
    """
    spatial = len(size) - 2
    dtype = theta.dtype or FLOAT
    around = list(range(1, 1 + spatial))  # θ's columns as (N, 1, …, 1, spatial)

    def column(index: int) -> ir.Value:
        return ctx.unsqueeze(ctx.op.Gather(theta, ctx.constant(index), axis=2), around)

    made = column(spatial)
    for index, count in enumerate(reversed(size[2:])):
        places = _places(ctx, count, align_corners, dtype)
        places = ctx.unsqueeze(places, list(range(1, index + 2)))  # its own axis, those after it, the last
        made = ctx.op.Add(made, ctx.op.Mul(places, column(index)))
    return made


def _places(ctx: Context, count: Size, align_corners: bool, dtype: ir.DataType) -> ir.Value:
    """``count`` places from −1 to 1: of the borders' centres with ``align_corners``, else of pixel centres."""
    if isinstance(count, int):
        whole = np.linspace(-1, 1, count) if count > 1 else np.zeros(count)
        return ctx.constant(whole if align_corners else whole * (count - 1) / max(count, 1), dtype)
    op = ctx.op
    number = op.Range(ctx.constant(0), ctx.value(count), ctx.constant(1))
    number.shape = ir.Shape([None])
    total = op.Cast(ctx.value(count), to=FLOAT)
    centred = op.Sub(op.Mul(op.Cast(number, to=FLOAT), 2.0), op.Sub(total, 1.0))
    # With one element both are 0 / 1.
    divisor = op.Max(op.Sub(total, 1.0), ctx.constant(1.0)) if align_corners else total
    return ctx.cast(op.Div(centred, divisor), dtype)


# -- channels and patches ---------------------------------------------------------------------------------


@lowering("aten::native_channel_shuffle")
def native_channel_shuffle(ctx: Context, x: ir.Value, groups: int) -> ir.Value:
    return ctx.lower("aten::channel_shuffle", x, groups)


Pair = int | Sequence[int]


def _pair(values: Pair) -> list[int]:
    found = [values] if isinstance(values, int) else list(values)
    return found * 2 if len(found) == 1 else found


@lowering("aten::im2col")
def im2col(ctx: Context, x: ir.Value, kernel_size: Pair, dilation: Pair, padding: Pair, stride: Pair) -> ir.Value:
    """Every patch as a column: (N, C, H, W) to (N, C·kh·kw, patches)."""
    kernel, pads = _pair(kernel_size), _pair(padding)
    single = ctx.rank(x) == 3
    batched = ctx.unsqueeze(x, 0) if single else x
    batch, channels, *sizes = ctx.sizes(batched)
    if any(pads):
        batched = ctx.op.Pad(batched, [*pads, *pads], ctx.constant(0, x.dtype), [2, 3])
    patches = 1
    for number, (size, count, step, stride_) in enumerate(
        zip(sizes, kernel, _pair(dilation), _pair(stride), strict=True)
    ):
        index = _patch_index(ctx, size, pads[number], count, step, stride_)
        fixed = index.shape[1] if index.shape is not None else None
        patches = patches * fixed if isinstance(fixed, int) and patches >= 0 else -1
        batched = ctx.op.Gather(batched, index, axis=2 + 2 * number)
    columns = ctx.op.Transpose(batched, perm=[0, 1, 2, 4, 3, 5])  # N, C, kh, kw, rows, columns
    taps = math.prod(kernel)
    rows = channels * taps if isinstance(channels, int) else ctx.op.Mul(channels, taps)
    made = ctx.reshape(columns, [batch, rows, patches])
    return ctx.squeeze(made, 0) if single else made


def _patch_index(ctx: Context, size: Size, pad: int, count: int, step: int, stride: int) -> ir.Value:
    """``(kernel, positions)``: where each tap of each patch lies on the padded axis."""
    taps = np.arange(count, dtype=np.int64)[:, None] * step
    reach = step * (count - 1) + 1
    if isinstance(size, int):
        positions = (size + 2 * pad - reach) // stride + 1
        return ctx.constant(taps + np.arange(positions, dtype=np.int64) * stride)
    op = ctx.op
    end = op.Add(size, 2 * pad - reach + 1)
    starts = op.Range(ctx.constant(0), end, ctx.constant(stride))
    starts.shape = ir.Shape([None])
    return op.Add(ctx.constant(taps), starts)


@lowering("aten::col2im")
def col2im(
    ctx: Context,
    x: ir.Value,
    output_size: Sequence[Size],
    kernel_size: Pair,
    dilation: Pair,
    padding: Pair,
    stride: Pair,
) -> ir.Value:
    """Columns back to an image; where patches overlap they are summed."""
    single = ctx.rank(x) == 2
    pads = _pair(padding)
    made = ctx.op.Col2Im(
        ctx.unsqueeze(x, 0) if single else x,
        ctx.vector(output_size),
        _pair(kernel_size),
        dilations=_pair(dilation),
        pads=[*pads, *pads],
        strides=_pair(stride),
    )
    return ctx.squeeze(made, 0) if single else made
