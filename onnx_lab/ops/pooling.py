"""Pooling over windows: maximum, average, to a wanted size, and back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_lab.lower.context import Context, Size
from onnx_lab.lower.registry import lowering

Sizes = int | Sequence[int]


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of one pooling call, one int per spatial axis."""

    kernel: list[int]
    stride: list[int]
    padding: list[int]
    dilation: list[int]

    @classmethod
    def of(cls, spatial: int, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes = 1) -> Windows:
        kernels = _spread(kernel, spatial)
        return cls(kernels, _spread(stride, spatial) or kernels, _spread(padding, spatial), _spread(dilation, spatial))

    def end_padding(self, sizes: Sequence[int], ceil_mode: bool) -> list[int]:
        """Elements that the windows reach beyond the end. Torch keeps a window that starts inside the padded input."""
        found = []
        for size, kernel, stride, pad, step in zip(
            sizes, self.kernel, self.stride, self.padding, self.dilation, strict=True
        ):
            reach = step * (kernel - 1) + 1
            room = size + 2 * pad - reach
            count = (room + (stride - 1 if ceil_mode else 0)) // stride + 1
            if ceil_mode and (count - 1) * stride >= size + pad:
                count -= 1
            found.append(max(0, (count - 1) * stride + reach - size - pad))
        return found


def _spread(sizes: Sizes, spatial: int) -> list[int]:
    """One int per axis; a single one serves all; none stays none."""
    found = [sizes] if isinstance(sizes, int) else list(sizes)
    return found * spatial if len(found) == 1 else found


def _batched(ctx: Context, x: ir.Value, spatial: int) -> tuple[ir.Value, bool]:
    """The input with a batch axis, and whether it had none."""
    single = ctx.rank(x) == spatial + 1
    return (ctx.unsqueeze(x, 0) if single else x), single


def _spatial(ctx: Context) -> int:
    """How many spatial axes the call pools over, from its name: ``aten::max_pool2d_with_indices``."""
    return int(ctx.call.key.partition("pool")[2][0])


# -- maximum ----------------------------------------------------------------------------------------------


@lowering("aten::max_pool1d", "aten::max_pool2d", "aten::max_pool3d")
def max_pool(
    ctx: Context,
    x: ir.Value,
    kernel_size: Sizes,
    stride: Sizes = (),
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> ir.Value:
    windows = Windows.of(_spatial(ctx), kernel_size, stride, padding, dilation)
    return _max_pool(ctx, x, windows, ceil_mode, with_indices=False)[0]


@lowering("aten::max_pool1d_with_indices", "aten::max_pool2d_with_indices", "aten::max_pool3d_with_indices")
def max_pool_with_indices(
    ctx: Context,
    x: ir.Value,
    kernel_size: Sizes,
    stride: Sizes = (),
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> tuple[ir.Value, ...]:
    windows = Windows.of(_spatial(ctx), kernel_size, stride, padding, dilation)
    return _max_pool(ctx, x, windows, ceil_mode, with_indices=ctx.used(1))


def _max_pool(ctx: Context, x: ir.Value, windows: Windows, ceil_mode: bool, with_indices: bool) -> tuple[ir.Value, ...]:
    """ONNX counts indices through the whole tensor, torch within one channel of one sample."""
    spatial = len(windows.kernel)
    batched, single = _batched(ctx, x, spatial)
    _refuse_windows_of_padding(ctx, batched, windows)
    made = ctx.op.MaxPool(
        batched,
        kernel_shape=windows.kernel,
        strides=windows.stride,
        pads=[*windows.padding, *windows.padding],
        dilations=windows.dilation,
        ceil_mode=int(ceil_mode),
        outputs=2 if with_indices else 1,
    )
    results = [made]
    if with_indices:
        values, indices = made
        sizes = ctx.sizes(batched)[2:]
        results = [values, ctx.op.Mod(indices, _product(ctx, sizes))]
    return tuple(ctx.squeeze(one, 0) for one in results) if single else tuple(results)


def _refuse_windows_of_padding(ctx: Context, x: ir.Value, windows: Windows) -> None:
    """A dilated window can miss a short axis altogether: −inf in torch, an arbitrary number elsewhere."""
    for axis, step in enumerate(windows.dilation):
        size = ctx.size(x, axis + 2)
        if windows.padding[axis] and isinstance(size, int) and size < step:
            ctx.unsupported("dilation", windows.dilation)


def _product(ctx: Context, sizes: Sequence[Size]) -> Size:
    known = ctx.known(sizes)
    return math.prod(known) if known is not None else ctx.op.ReduceProd(ctx.vector(sizes), keepdims=0)


@lowering("aten::max_unpool2d")
def max_unpool2d(ctx: Context, x: ir.Value, indices: ir.Value, output_size: Sequence[Size]) -> ir.Value:
    """Every maximum back at its place within its channel, zeros elsewhere."""
    return _unpooled(ctx, x, indices, output_size)


@lowering("aten::max_unpool3d")
def max_unpool3d(
    ctx: Context, x: ir.Value, indices: ir.Value, output_size: Sequence[Size], stride: Sizes, padding: Sizes
) -> ir.Value:
    return _unpooled(ctx, x, indices, output_size)


def _unpooled(ctx: Context, x: ir.Value, indices: ir.Value, output_size: Sequence[Size]) -> ir.Value:
    lead = ctx.sizes(x)[: -len(output_size)]
    zeros = ctx.full([*lead, _product(ctx, output_size)], 0, x.dtype or ir.DataType.FLOAT)
    flat = [ctx.reshape(one, [*lead, -1]) for one in (indices, x)]
    made = ctx.op.ScatterElements(zeros, *flat, axis=-1)
    return ctx.reshape(made, [*lead, *output_size])


# -- average ----------------------------------------------------------------------------------------------


@lowering("aten::avg_pool1d")
def avg_pool1d(
    ctx: Context,
    x: ir.Value,
    kernel_size: Sizes,
    stride: Sizes = (),
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> ir.Value:
    return _avg_pool(ctx, x, Windows.of(1, kernel_size, stride, padding), ceil_mode, count_include_pad, None)


@lowering("aten::avg_pool2d", "aten::avg_pool3d")
def avg_pool(
    ctx: Context,
    x: ir.Value,
    kernel_size: Sizes,
    stride: Sizes = (),
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> ir.Value:
    windows = Windows.of(_spatial(ctx), kernel_size, stride, padding)
    return _avg_pool(ctx, x, windows, ceil_mode, count_include_pad, divisor_override)


def _avg_pool(
    ctx: Context, x: ir.Value, windows: Windows, ceil_mode: bool, count_include_pad: bool, divisor: int | None
) -> ir.Value:
    """ONNX divides as torch does, windows cut by ``ceil_mode`` included; a divisor of the user's scales the sum."""
    batched, single = _batched(ctx, x, len(windows.kernel))
    pads = [*windows.padding, *windows.padding]
    if divisor is not None:
        if not (x.dtype or ir.DataType.FLOAT).is_floating_point():
            ctx.unsupported("divisor_override", divisor, "pool floating point numbers")
        count_include_pad = True
        if ceil_mode:
            # The sums need every window whole, so zeros stand where it reaches beyond the end.
            axes = range(2, 2 + len(windows.kernel))
            sizes = [ctx.fixed_size(batched, axis, "divisor_override with ceil_mode on") for axis in axes]
            ends = windows.end_padding(sizes, ceil_mode=True)
            batched = ctx.op.Pad(batched, [*windows.padding, *ends], 0.0, list(axes))
            pads, ceil_mode = [0] * len(pads), False
    made = ctx.op.AveragePool(
        batched,
        kernel_shape=windows.kernel,
        strides=windows.stride,
        pads=pads,
        ceil_mode=int(ceil_mode),
        count_include_pad=int(count_include_pad),
    )
    if divisor is not None and divisor != math.prod(windows.kernel):
        made = ctx.op.Mul(made, math.prod(windows.kernel) / divisor)
    return ctx.squeeze(made, 0) if single else made


# -- to a wanted size -------------------------------------------------------------------------------------


@lowering(
    "aten::adaptive_avg_pool1d",
    "aten::adaptive_avg_pool2d",
    "aten::adaptive_avg_pool3d",
    "aten::_adaptive_avg_pool2d",
    "aten::_adaptive_avg_pool3d",
)
def adaptive_avg_pool(ctx: Context, x: ir.Value, output_size: Sequence[Size]) -> ir.Value:
    """Averages of windows that tile the axis as evenly as whole numbers allow."""
    spatial = _spatial(ctx)
    wanted = list(output_size) * (spatial // len(output_size))
    batched, single = _batched(ctx, x, spatial)
    sizes = ctx.sizes(batched)[2:]
    if all(size == 1 for size in wanted):
        made = ctx.op.GlobalAveragePool(batched)
    elif (kernel := even_windows(sizes, wanted)) is not None:
        made = ctx.op.AveragePool(batched, kernel_shape=kernel, strides=kernel)
    else:
        made = batched
        for axis, (size, count) in enumerate(zip(sizes, wanted, strict=True), start=2):
            made = _average_axis(ctx, made, axis, size, count)
    return ctx.squeeze(made, 0) if single else made


def _average_axis(ctx: Context, x: ir.Value, axis: int, size: Size, count: Size) -> ir.Value:
    """The windows of one axis side by side, summed, divided by what each holds."""
    if count == 1:
        return ctx.op.ReduceMean(x, [axis], keepdims=1)
    spans = Spans.of(ctx, size, count)
    trailing = list(range(1, ctx.rank(x) - axis))
    inside = ctx.unsqueeze(spans.inside, [one + 1 for one in trailing]) if trailing else spans.inside
    held = ctx.unsqueeze(spans.length, trailing) if trailing else spans.length
    gathered = ctx.op.Gather(x, spans.index, axis=axis)
    total = ctx.op.ReduceSum(ctx.op.Where(inside, gathered, 0.0), [axis + 1], keepdims=0)
    made = ctx.op.Div(total, ctx.cast(held, x.dtype))
    made.shape = ir.Shape([None] * ctx.rank(x))
    return made


@lowering("aten::adaptive_max_pool1d", "aten::adaptive_max_pool2d", "aten::adaptive_max_pool3d")
def adaptive_max_pool(ctx: Context, x: ir.Value, output_size: Sequence[Size]) -> tuple[ir.Value, ...]:
    spatial = _spatial(ctx)
    wanted = list(output_size) * (spatial // len(output_size))
    batched, single = _batched(ctx, x, spatial)
    sizes = ctx.sizes(batched)[2:]
    kernel = even_windows(sizes, wanted)
    if kernel is not None:
        return _max_pool(ctx, x, Windows(kernel, kernel, [0] * spatial, [1] * spatial), False, ctx.used(1))
    results: tuple[ir.Value, ...]
    if ctx.used(1):
        results = _max_with_indices(ctx, batched, sizes, wanted)
    else:
        made = batched
        for axis, (size, count) in enumerate(zip(sizes, wanted, strict=True), start=2):
            gathered = ctx.op.Gather(made, Spans.of(ctx, size, count).index, axis=axis)
            made = ctx.op.ReduceMax(gathered, [axis + 1], keepdims=0)
        results = (made,)
    return tuple(ctx.squeeze(one, 0) for one in results) if single else results


def _max_with_indices(
    ctx: Context, x: ir.Value, sizes: Sequence[Size], wanted: Sequence[Size]
) -> tuple[ir.Value, ir.Value]:
    """All windows as one last axis of the elements' places within the channel; the first maximum wins."""
    count = len(sizes)
    place: ir.Value | None = None
    gathered = x
    for number, (size, want) in enumerate(zip(sizes, wanted, strict=True)):
        index = Spans.of(ctx, size, want).index
        gathered = ctx.op.Gather(gathered, index, axis=2 + 2 * number)
        # (o₁, k₁, o₂, k₂ …) as one broadcast sum of the places along each axis.
        stride = _product(ctx, sizes[number + 1 :])
        part = (
            ctx.unsqueeze(ctx.op.Mul(index, stride), list(range(2, 2 + 2 * (count - 1 - number))))
            if (number < count - 1)
            else index
        )
        place = part if place is None else ctx.op.Add(place, part)
    assert place is not None
    outs, ins = [2 * axis for axis in range(count)], [2 * axis + 1 for axis in range(count)]
    gathered = ctx.op.Transpose(gathered, perm=[0, 1, *(axis + 2 for axis in (*outs, *ins))])
    gathered = ctx.op.Reshape(gathered, [*[0] * (2 + count), -1])
    place = ctx.op.Reshape(ctx.op.Transpose(place, perm=[*outs, *ins]), [*[0] * count, -1])
    which = ctx.op.ArgMax(gathered, axis=-1, keepdims=1)
    everywhere = ctx.op.Expand(place, ctx.op.Shape(gathered))
    found = ctx.op.GatherElements(everywhere, which, axis=-1)
    return ctx.op.ReduceMax(gathered, [-1], keepdims=0), ctx.squeeze(found, -1)


def even_windows(sizes: Sequence[Size], wanted: Sequence[Size]) -> list[int] | None:
    """The kernel when every wanted size divides its axis, which must be fixed."""
    kernel = []
    for size, count in zip(sizes, wanted, strict=True):
        if not isinstance(size, int) or not isinstance(count, int) or not count or not size or size % count:
            return None
        kernel.append(size // count)
    return kernel


@dataclass(frozen=True, slots=True)
class Spans:
    """The windows along one axis: from floor(i·n / o) to ceil((i+1)·n / o).

    Attributes:
        index: ``(o, longest)`` places; shorter windows repeat their last one.
        inside: ``(o, longest)`` booleans, false at those repeats.
        length: ``(o,)`` lengths.
    """

    index: ir.Value
    inside: ir.Value
    length: ir.Value

    @classmethod
    def of(cls, ctx: Context, size: Size, count: Size) -> Spans:
        if isinstance(size, int) and isinstance(count, int):
            number = np.arange(count, dtype=np.int64)
            start, end = number * size // count, -(-(number + 1) * size // count)
            place = start[:, None] + np.arange((end - start).max(initial=0))
            arrays = (np.minimum(place, end[:, None] - 1), place < end[:, None], end - start)
            return cls(*(ctx.constant(array) for array in arrays))
        op, zero, one = ctx.op, ctx.constant(0), ctx.constant(1)
        n, o = ctx.value(size), ctx.value(count)
        number = op.Range(zero, o, one)
        start = op.Div(op.Mul(number, n), o)
        end = op.Div(op.Add(op.Mul(op.Add(number, 1), n), op.Sub(o, 1)), o)
        length = op.Sub(end, start)
        start.shape = end.shape = length.shape = ir.Shape([None])
        place = op.Add(op.Unsqueeze(start, [1]), op.Range(zero, op.ReduceMax(length, keepdims=0), one))
        last = op.Unsqueeze(end, [1])
        index, inside = op.Min(place, op.Sub(last, 1)), op.Less(place, last)
        place.shape = index.shape = inside.shape = ir.Shape([None, None])
        return cls(index, inside, length)
