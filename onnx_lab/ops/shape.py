"""Views and rearrangements: reshape, permute, expand, cat, split, pad-free copies."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_lab.lower.context import Context, Size
from onnx_lab.lower.registry import lowering

Sizes = Sequence[Size]


@lowering("aten::view", "aten::_unsafe_view")
def view(ctx: Context, x: ir.Value, size: Sizes) -> ir.Value:
    return ctx.reshape(x, size)


@lowering("aten::reshape")
def reshape(ctx: Context, x: ir.Value, shape: Sizes) -> ir.Value:
    return ctx.reshape(x, shape)


@lowering("aten::view_as", "aten::reshape_as")
def reshape_as(ctx: Context, x: ir.Value, other: ir.Value) -> ir.Value:
    return ctx.reshape(x, ctx.sizes(other))


@lowering("aten::flatten.using_ints")
def flatten(ctx: Context, x: ir.Value, start_dim: int = 0, end_dim: int = -1) -> ir.Value:
    if ctx.rank(x) == 0:
        return ctx.reshape(x, [1])
    start, end = ctx.axis(x, start_dim), ctx.axis(x, end_dim)
    if start == end:
        return x
    sizes = ctx.sizes(x)
    merged = sizes[start : end + 1]
    fixed = [size for size in merged if isinstance(size, int)]
    middle: list[Size] = [math.prod(fixed)] if len(fixed) == len(merged) else [-1]
    return ctx.reshape(x, [*sizes[:start], *middle, *sizes[end + 1 :]])


@lowering("aten::ravel")
def ravel(ctx: Context, x: ir.Value) -> ir.Value:
    return ctx.reshape(x, [-1])


@lowering("aten::unflatten.int")
def unflatten(ctx: Context, x: ir.Value, dim: int, sizes: Sizes) -> ir.Value:
    axis, old = ctx.axis(x, dim), ctx.sizes(x)
    return ctx.reshape(x, [*old[:axis], *sizes, *old[axis + 1 :]])


@lowering("aten::squeeze")
def squeeze(ctx: Context, x: ir.Value) -> ir.Value:
    """Drops the axes of size 1 that the capture saw; a symbolic size stays, as in the captured spec."""
    ones = [axis for axis in range(ctx.rank(x)) if ctx.size(x, axis) == 1]
    if ctx.rank(x) - len(ones) != len(ctx.out_shape):
        ctx.unsupported("self", "an axis whose size is only sometimes 1", "name the dim: squeeze(dim)", final=True)
    return ctx.squeeze(x, ones) if ones else x


@lowering("aten::squeeze.dim", "aten::squeeze.dims")
def squeeze_dims(ctx: Context, x: ir.Value, dim: int | Sequence[int]) -> ir.Value:
    dims = [dim] if isinstance(dim, int) else list(dim)
    ones = [axis for axis in ctx.axis_list(x, dims) if ctx.size(x, axis) == 1] if dims else []
    return ctx.squeeze(x, ones) if ones else x


@lowering("aten::unsqueeze")
def unsqueeze(ctx: Context, x: ir.Value, dim: int) -> ir.Value:
    return ctx.unsqueeze(x, dim % (ctx.rank(x) + 1))


@lowering("aten::permute")
def permute(ctx: Context, x: ir.Value, dims: Sequence[int]) -> ir.Value:
    return ctx.transpose(x, [ctx.axis(x, dim) for dim in dims])


@lowering("aten::transpose.int")
def transpose(ctx: Context, x: ir.Value, dim0: int, dim1: int) -> ir.Value:
    return ctx.swap(x, dim0, dim1) if ctx.rank(x) else x


@lowering("aten::swapaxes")
def swapaxes(ctx: Context, x: ir.Value, axis0: int, axis1: int) -> ir.Value:
    return transpose(ctx, x, axis0, axis1)


@lowering("aten::swapdims")
def swapdims(ctx: Context, x: ir.Value, dim0: int, dim1: int) -> ir.Value:
    return transpose(ctx, x, dim0, dim1)


@lowering("aten::t", "aten::numpy_T", "aten::mT")
def t(ctx: Context, x: ir.Value) -> ir.Value:
    rank = ctx.rank(x)
    if ctx.call.key == "aten::numpy_T":
        return ctx.transpose(x, list(range(rank))[::-1])
    return ctx.swap(x, rank - 2, rank - 1) if rank >= 2 else x


@lowering("aten::movedim.int", "aten::movedim.intlist")
def movedim(ctx: Context, x: ir.Value, source: int | Sequence[int], destination: int | Sequence[int]) -> ir.Value:
    sources, targets = (ctx.axis_list(x, [one] if isinstance(one, int) else list(one)) for one in (source, destination))
    placed = dict(zip(targets, sources, strict=True))
    rest = iter([axis for axis in range(ctx.rank(x)) if axis not in sources])
    return ctx.transpose(x, [placed[axis] if axis in placed else next(rest) for axis in range(ctx.rank(x))])


@lowering("aten::expand")
def expand(ctx: Context, x: ir.Value, size: Sizes, *, implicit: bool = False) -> ir.Value:
    return ctx.expand(x, size)


@lowering("aten::broadcast_to")
def broadcast_to(ctx: Context, x: ir.Value, size: Sizes) -> ir.Value:
    return ctx.expand(x, size)


@lowering("aten::expand_as")
def expand_as(ctx: Context, x: ir.Value, other: ir.Value) -> ir.Value:
    return x if x.shape == other.shape and x.shape is not None else ctx.op.Expand(x, ctx.shape(other))


@lowering("aten::slice.Tensor")
def slice_(
    ctx: Context,
    x: ir.Value,
    dim: int = 0,
    start: Size | None = None,
    end: Size | None = None,
    step: Size = 1,
) -> ir.Value:
    """x[start:end:step] on one axis; ONNX clamps out-of-range bounds as torch does."""
    first, last = (0 if start is None else start), (INT64_MAX if end is None else end)
    if isinstance(first, int) and first == 0 and isinstance(last, int) and last == INT64_MAX and step == 1:
        return x
    return ctx.op.Slice(x, *map(ctx.vector, (first, last, ctx.axis(x, dim), step)))


INT64_MAX = 2**63 - 1


@lowering("aten::narrow")
def narrow(ctx: Context, x: ir.Value, dim: int, start: Size, length: Size) -> ir.Value:
    if isinstance(start, int) and start < 0:
        size = ctx.size(x, dim)
        start = size + start if isinstance(size, int) else ctx.op.Add(size, start)
    both = isinstance(start, int) and isinstance(length, int)
    end = start + length if both else ctx.op.Add(ctx.value(start), ctx.value(length))
    return ctx.op.Slice(x, *map(ctx.vector, (start, end, ctx.axis(x, dim))))


@lowering("aten::select.int")
def select(ctx: Context, x: ir.Value, dim: int, index: Size) -> ir.Value:
    return ctx.op.Gather(x, ctx.value(index), axis=ctx.axis(x, dim))


@lowering("aten::cat", "aten::concat", "aten::concatenate")
def cat(ctx: Context, tensors: Sequence[ir.Value], dim: int = 0) -> ir.Value:
    """Operands of shape (0,) are skipped, as torch's old rule has it."""
    kept = [one for one in tensors if not (ctx.rank(one) == 1 and ctx.size(one, 0) == 0)] or list(tensors[:1])
    dtype = ctx.result_type(*tensors)
    values = [ctx.cast(one, dtype) for one in kept]
    return values[0] if len(values) == 1 else ctx.op.Concat(*values, axis=ctx.axis(values[0], dim))


@lowering("aten::stack")
def stack(ctx: Context, tensors: Sequence[ir.Value], dim: int = 0) -> ir.Value:
    axis = dim % (ctx.rank(tensors[0]) + 1)
    dtype = ctx.result_type(*tensors)
    parts = [ctx.unsqueeze(ctx.cast(one, dtype), axis) for one in tensors]
    return parts[0] if len(parts) == 1 else ctx.op.Concat(*parts, axis=axis)


def _split(ctx: Context, x: ir.Value, sizes: Sizes, dim: int) -> tuple[ir.Value, ...]:
    if len(sizes) == 1:
        return (x,)
    return ctx.op.Split(x, ctx.vector(list(sizes)), axis=ctx.axis(x, dim), outputs=len(sizes))


@lowering("aten::split_with_sizes")
def split_with_sizes(ctx: Context, x: ir.Value, split_sizes: Sizes, dim: int = 0) -> tuple[ir.Value, ...]:
    return _split(ctx, x, split_sizes, dim)


@lowering("aten::split.sizes")
def split_sizes(ctx: Context, x: ir.Value, split_size: Sizes, dim: int = 0) -> tuple[ir.Value, ...]:
    return _split(ctx, x, split_size, dim)


@lowering("aten::split.Tensor")
def split(ctx: Context, x: ir.Value, split_size: int, dim: int = 0) -> tuple[ir.Value, ...]:
    """Pieces of ``split_size``; how many there are is fixed by the capture."""
    count = len(ctx.call.spec)  # type: ignore[arg-type]
    return _pieces(ctx, x, ctx.fixed(split_size, "split_size"), count, dim)


@lowering("aten::chunk")
def chunk(ctx: Context, x: ir.Value, chunks: int, dim: int = 0) -> tuple[ir.Value, ...]:
    size = ctx.size(x, dim)
    count = len(ctx.call.spec)  # type: ignore[arg-type]
    if isinstance(size, int):
        return _pieces(ctx, x, -(-size // chunks), count, dim)
    step = ctx.op.Div(ctx.op.Add(size, chunks - 1), chunks)
    ends = [ctx.op.Mul(step, number) for number in range(count + 1)]
    axis = ctx.axis(x, dim)
    bounds = itertools.pairwise(ends)
    return tuple(ctx.op.Slice(x, ctx.vector(a), ctx.vector(b), ctx.vector(axis)) for a, b in bounds)


def _pieces(ctx: Context, x: ir.Value, step: int, count: int, dim: int) -> tuple[ir.Value, ...]:
    size, axis = ctx.size(x, dim), ctx.axis(x, dim)
    if isinstance(size, int):
        return _split(ctx, x, [min(step, size - step * number) for number in range(count)], dim)
    # The number of pieces is part of the graph: with any other size these do not add up, and the runtime says so.
    last = ctx.op.Min(ctx.op.Sub(size, step * (count - 1)), step)
    made = ctx.op.Split(x, ctx.vector([step] * (count - 1) + [last]), axis=axis, outputs=count)
    return made if isinstance(made, tuple) else (made,)


@lowering("aten::tensor_split.sections")
def tensor_split(ctx: Context, x: ir.Value, sections: int, dim: int = 0) -> tuple[ir.Value, ...]:
    size = ctx.size(x, dim)
    if isinstance(size, int):
        small, larger = divmod(size, sections)
        return _split(ctx, x, [small + (number < larger) for number in range(sections)], dim)
    # Piece number i has ⌊(size + sections − 1 − i) / sections⌋ elements.
    counts = ctx.op.Div(
        ctx.op.Add(ctx.as_vector(size), [sections - 1 - number for number in range(sections)]), sections
    )
    made = ctx.op.Split(x, counts, axis=ctx.axis(x, dim), outputs=sections)
    return made if isinstance(made, tuple) else (made,)


@lowering("aten::tensor_split.indices")
def tensor_split_at(ctx: Context, x: ir.Value, indices: Sequence[int], dim: int = 0) -> tuple[ir.Value, ...]:
    axis, ends = ctx.axis(x, dim), [0, *ctx.fixed(indices, "indices"), INT64_MAX]
    return tuple(ctx.op.Slice(x, [a], [b], [axis]) for a, b in itertools.pairwise(ends))


def _sections_along(dim: int) -> Callable[..., Any]:
    def pieces(ctx: Context, x: ir.Value, sections: int) -> tuple[ir.Value, ...]:
        made: tuple[ir.Value, ...] = tensor_split(ctx, x, sections, min(dim, ctx.rank(x) - 1))
        return made

    return pieces


def _indices_along(dim: int) -> Callable[..., Any]:
    def pieces(ctx: Context, x: ir.Value, indices: Sequence[int]) -> tuple[ir.Value, ...]:
        made: tuple[ir.Value, ...] = tensor_split_at(ctx, x, indices, min(dim, ctx.rank(x) - 1))
        return made

    return pieces


# hsplit takes the only axis of a vector.
for _name, _dim in (("vsplit", 0), ("hsplit", 1), ("dsplit", 2)):
    lowering(f"aten::{_name}.int")(_sections_along(_dim))
    lowering(f"aten::{_name}.array")(_indices_along(_dim))


@lowering("aten::unbind.int")
def unbind(ctx: Context, x: ir.Value, dim: int = 0) -> tuple[ir.Value, ...]:
    count = len(ctx.call.spec)  # type: ignore[arg-type]
    axis = ctx.axis(x, dim)
    return tuple(ctx.op.Gather(x, ctx.constant(number), axis=axis) for number in range(count))


@lowering("aten::repeat")
def repeat(ctx: Context, x: ir.Value, repeats: Sizes) -> ir.Value:
    missing = len(repeats) - ctx.rank(x)
    data = ctx.unsqueeze(x, list(range(missing))) if missing else x
    if all(isinstance(one, int) and one == 1 for one in repeats):
        return data
    return ctx.op.Tile(data, ctx.vector(list(repeats))) if repeats else data


@lowering("aten::tile")
def tile(ctx: Context, x: ir.Value, dims: Sizes) -> ir.Value:
    return repeat(ctx, x, [*[1] * (ctx.rank(x) - len(dims)), *dims])


@lowering("aten::roll")
def roll(ctx: Context, x: ir.Value, shifts: Sizes, dims: Sequence[int] = ()) -> ir.Value:
    """Move the tail of each axis to its front; without dims the tensor is rolled as if flat."""
    if not dims:
        flat = _roll_axis(ctx, ctx.flatten(x), shifts[0] if shifts else 0, 0) if ctx.rank(x) else x
        return ctx.reshape(flat, ctx.sizes(x))
    for shift, dim in zip(shifts, dims, strict=True):
        x = _roll_axis(ctx, x, shift, ctx.axis(x, dim))
    return x


def _roll_axis(ctx: Context, x: ir.Value, shift: Size, axis: int) -> ir.Value:
    size = ctx.size(x, axis)
    if isinstance(size, int) and isinstance(shift, int):
        if size == 0 or shift % size == 0:
            return x
        at: Size = size - shift % size
    else:
        # Mod has the sign of the divisor; a size of 0 has nothing to roll, and the clamp keeps Mod defined.
        room = ctx.op.Max(ctx.value(size), 1)
        at = ctx.op.Sub(room, ctx.op.Mod(ctx.value(shift), room))
    tail = ctx.op.Slice(x, ctx.vector(at), [INT64_MAX], [axis])
    return ctx.op.Concat(tail, ctx.op.Slice(x, [0], ctx.vector(at), [axis]), axis=axis)


@lowering("aten::flip")
def flip(ctx: Context, x: ir.Value, dims: Sequence[int]) -> ir.Value:
    axes = ctx.axis_list(x, list(dims)) if dims else []
    if not axes or not ctx.rank(x):
        return x
    count = len(axes)
    return ctx.op.Slice(x, [-1] * count, [-INT64_MAX] * count, axes, [-1] * count)


@lowering("aten::fliplr", "aten::flipud")
def flip_lr(ctx: Context, x: ir.Value) -> ir.Value:
    return flip(ctx, x, [1 if ctx.call.key == "aten::fliplr" else 0])


@lowering("aten::rot90")
def rot90(ctx: Context, x: ir.Value, k: int = 1, dims: Sequence[int] = (0, 1)) -> ir.Value:
    a, b = ctx.axis_list(x, list(dims))
    turns = {1: lambda: ctx.swap(flip(ctx, x, [b]), a, b), 2: lambda: flip(ctx, x, [a, b])}
    turns |= {3: lambda: ctx.swap(flip(ctx, x, [a]), a, b), 0: lambda: x}
    return turns[k % 4]()


@lowering("aten::diagonal")
def diagonal(ctx: Context, x: ir.Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> ir.Value:
    """The diagonal goes to the last axis: gathered from the two axes made one."""
    rank, (a, b) = ctx.rank(x), ctx.axis_list(x, [dim1, dim2])
    order = [axis for axis in range(rank) if axis not in (a, b)]
    moved = ctx.transpose(x, [*order, a, b])
    rows, columns = ctx.size(x, a), ctx.size(x, b)
    flat = ctx.reshape(moved, [*(ctx.size(x, axis) for axis in order), -1])
    return ctx.op.Gather(flat, diagonal_positions(ctx, rows, columns, offset), axis=rank - 2)


def diagonal_positions(ctx: Context, rows: Size, columns: Size, offset: int) -> ir.Value:
    """Positions of a diagonal in a flat (rows, columns) matrix."""
    first_row, first_column = max(0, -offset), max(0, offset)
    if isinstance(rows, int) and isinstance(columns, int):
        length = max(0, min(rows - first_row, columns - first_column))
        return ctx.constant((np.arange(length) + first_row) * columns + np.arange(length) + first_column)
    left, right = ctx.op.Sub(ctx.value(rows), first_row), ctx.op.Sub(ctx.value(columns), first_column)
    steps = ctx.op.Range(0, ctx.op.Max(ctx.op.Min(left, right), 0), 1)
    row = ctx.op.Mul(ctx.op.Add(steps, first_row), ctx.value(columns))
    return ctx.op.Add(row, ctx.op.Add(steps, first_column))


@lowering("aten::slice_scatter")
def slice_scatter(
    ctx: Context,
    x: ir.Value,
    src: ir.Value,
    dim: int = 0,
    start: Size | None = None,
    end: Size | None = None,
    step: Size = 1,
) -> ir.Value:
    """X with src written at x[start:end:step]: pieces around it for step 1, else by index."""
    axis = ctx.axis(x, dim)
    first, last = (0 if start is None else start), (INT64_MAX if end is None else end)
    if step == 1 and isinstance(first, int) and isinstance(last, int):
        return _pieced(ctx, x, src, axis, first, last)
    places = ctx.op.Slice(_places(ctx, x, axis), *map(ctx.vector, (first, last, 0, step)))
    return _write_along(ctx, x, src, places, axis)


def _pieced(ctx: Context, x: ir.Value, src: ir.Value, axis: int, first: int, last: int) -> ir.Value:
    size, whole = ctx.size(x, axis), first == 0 and last == INT64_MAX
    if whole or (isinstance(size, int) and first in (0, -size) and last >= size):
        return src
    parts = [src]
    if first != 0:
        parts.insert(0, ctx.op.Slice(x, [0], [first], [axis]))
    if last != INT64_MAX and not (isinstance(size, int) and last >= size):
        # When the end is before the start, the rest begins where the source was put.
        begin = max(last, first) if (last >= 0) == (first >= 0) else last
        parts.append(ctx.op.Slice(x, [begin], [INT64_MAX], [axis]))
    return ctx.op.Concat(*parts, axis=axis)


def _places(ctx: Context, x: ir.Value, axis: int) -> ir.Value:
    size = ctx.size(x, axis)
    return ctx.constant(np.arange(size)) if isinstance(size, int) else ctx.op.Range(0, size, 1)


def _write_along(ctx: Context, x: ir.Value, src: ir.Value, places: ir.Value, axis: int) -> ir.Value:
    lined = ctx.unsqueeze(places, [one for one in range(ctx.rank(x)) if one != axis]) if ctx.rank(x) > 1 else places
    return ctx.op.ScatterElements(x, ctx.op.Expand(lined, ctx.shape(src)), src, axis=axis)


@lowering("aten::select_scatter")
def select_scatter(ctx: Context, x: ir.Value, src: ir.Value, dim: int, index: Size) -> ir.Value:
    axis = ctx.axis(x, dim)
    size = ctx.size(x, axis)
    if isinstance(index, int) and index < 0 and isinstance(size, int):
        index += size
    lined = ctx.unsqueeze(src, axis)
    if isinstance(index, int) and index >= 0:
        return slice_scatter(ctx, x, lined, dim, index, index + 1)
    at = index if isinstance(index, ir.Value) else ctx.op.Add(ctx.value(size), index)
    return _write_along(ctx, x, lined, ctx.vector(at), axis)


@lowering("aten::diagonal_scatter")
def diagonal_scatter(
    ctx: Context, x: ir.Value, src: ir.Value, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> ir.Value:
    rank, (a, b) = ctx.rank(x), ctx.axis_list(x, [dim1, dim2])
    order = [*(axis for axis in range(rank) if axis not in (a, b)), a, b]
    moved = ctx.transpose(x, order)
    rows, columns = ctx.size(x, a), ctx.size(x, b)
    flat = ctx.reshape(moved, [*(ctx.size(x, axis) for axis in order[:-2]), -1])
    written = _write_along(ctx, flat, src, diagonal_positions(ctx, rows, columns, offset), rank - 2)
    return ctx.transpose(ctx.reshape(written, ctx.sizes(moved)), [order.index(axis) for axis in range(rank)])


@lowering("aten::pixel_shuffle")
def pixel_shuffle(ctx: Context, x: ir.Value, upscale_factor: int) -> ir.Value:
    *batch, channels, height, width = ctx.sizes(x)
    r, n = upscale_factor, len(batch)
    deep = channels // (r * r) if isinstance(channels, int) else ctx.op.Div(channels, r * r)
    parts = ctx.reshape(x, [*batch, deep, r, r, height, width])
    mixed = ctx.transpose(parts, [*range(n), n, n + 3, n + 1, n + 4, n + 2])
    return ctx.reshape(mixed, [*batch, deep, *(_times(ctx, one, r) for one in (height, width))])


@lowering("aten::pixel_unshuffle")
def pixel_unshuffle(ctx: Context, x: ir.Value, downscale_factor: int) -> ir.Value:
    *batch, channels, height, width = ctx.sizes(x)
    r, n = downscale_factor, len(batch)
    small = [one // r if isinstance(one, int) else ctx.op.Div(one, r) for one in (height, width)]
    parts = ctx.reshape(x, [*batch, channels, small[0], r, small[1], r])
    mixed = ctx.transpose(parts, [*range(n), n, n + 2, n + 4, n + 1, n + 3])
    return ctx.reshape(mixed, [*batch, _times(ctx, channels, r * r), *small])


@lowering("aten::channel_shuffle")
def channel_shuffle(ctx: Context, x: ir.Value, groups: int) -> ir.Value:
    batch, channels, *rest = ctx.sizes(x)
    per = channels // groups if isinstance(channels, int) else ctx.op.Div(channels, groups)
    parts = ctx.swap(ctx.reshape(x, [batch, groups, per, *rest]), 1, 2)
    return ctx.reshape(parts, [batch, channels, *rest])


def _times(ctx: Context, size: Size, factor: int) -> Size:
    return size * factor if isinstance(size, int) else ctx.op.Mul(size, factor)


@lowering("aten::unfold")
def unfold(ctx: Context, x: ir.Value, dimension: int, size: int, step: int) -> ir.Value:
    """Sliding windows of one axis, the window going to the end."""
    axis = ctx.axis(x, dimension)
    data, total = (x, ctx.size(x, axis)) if ctx.rank(x) else (ctx.reshape(x, [1]), 1)
    if isinstance(total, int):
        starts = ctx.constant(np.arange((total - size) // step + 1) * step)
    else:
        starts = ctx.op.Range(0, ctx.op.Add(ctx.op.Sub(total, size), 1), step)
    index = ctx.op.Add(ctx.unsqueeze(starts, 1), ctx.constant(np.arange(size)[None]))
    taken = ctx.op.Gather(data, index, axis=axis)
    if not ctx.rank(x):
        return ctx.reshape(taken, [size])
    rank = ctx.rank(x)
    return ctx.transpose(taken, [*range(axis + 1), *range(axis + 2, rank + 1), axis + 1])
