"""Reading by index: embedding, gather, advanced indexing, masks, one-hot, search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnx_lab.lower.context import Context
from onnx_lab.lower.registry import lowering

INT64, BOOL = ir.DataType.INT64, ir.DataType.BOOL
Indices = Sequence[ir.Value | None]


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """Advanced indexing in ONNX's terms.

    Attributes:
        axes: the axes that are indexed, ascending.
        indices: one integer index per axis, all of the broadcast shape ``(*B,)``.
        front: whether ``B`` comes first in torch's result (the axes are not adjacent).
        batch_rank: number of dims of ``B``.
    """

    axes: list[int]
    indices: list[ir.Value]
    front: bool
    batch_rank: int


def plan_indices(ctx: Context, indices: Indices) -> IndexPlan:
    """Boolean masks become the coordinates of their true elements; integer indices are broadcast."""
    axes: list[int] = []
    found: list[ir.Value] = []
    axis = 0
    for index in indices:
        if index is None:
            axis += 1
            continue
        for column in mask_columns(ctx, index) if index.dtype == BOOL else [ctx.cast(index, INT64)]:
            axes.append(axis)
            found.append(column)
            axis += 1
    ranks = [ctx.rank(one) for one in found]
    adjacent = axes == list(range(axes[0], axes[0] + len(axes)))
    return IndexPlan(axes, _broadcast(ctx, found), not adjacent, max(ranks))


def mask_columns(ctx: Context, mask: ir.Value) -> list[ir.Value]:
    """Coordinates of the true elements: one 1-D INT64 value per axis of the mask."""
    rank = ctx.rank(mask)
    if rank == 0:
        ctx.unsupported("indices", "a 0-D mask", "index with mask.reshape(1) on an unsqueezed tensor")
    columns = ctx.op.NonZero(mask)
    columns.shape = ir.Shape([rank, None])
    if rank == 1:
        return [ctx.squeeze(columns, 0)]
    return [ctx.op.Gather(columns, ctx.constant(axis), axis=0) for axis in range(rank)]


def _broadcast(ctx: Context, indices: list[ir.Value]) -> list[ir.Value]:
    shapes = [tuple(index.shape) if index.shape is not None else None for index in indices]
    if len(indices) == 1 or _surely_equal(shapes):
        return indices
    joined = indices[0]
    for index in indices[1:]:
        joined = ctx.op.Add(joined, index)
    target = ctx.shape(joined)
    return [ctx.op.Expand(index, target) for index in indices]


def _surely_equal(shapes: Sequence[tuple[object, ...] | None]) -> bool:
    """Fixed and equal, or columns of one mask (a single unknown size of the same value)."""
    first = shapes[0]
    return first is not None and all(shape == first for shape in shapes) and all(isinstance(d, int) for d in first)


def stacked(ctx: Context, plan: IndexPlan) -> ir.Value:
    """Indices as ScatterND and GatherND want them: ``(*B, number of axes)``."""
    columns = [ctx.unsqueeze(index, plan.batch_rank) for index in plan.indices]
    return columns[0] if len(columns) == 1 else ctx.op.Concat(*columns, axis=-1)


def to_front(rank: int, axes: list[int]) -> list[int]:
    """The permutation that brings ``axes`` to the front."""
    return [*axes, *[axis for axis in range(rank) if axis not in axes]]


@lowering("aten::index.Tensor", "aten::_unsafe_index.Tensor")
def index(ctx: Context, x: ir.Value, indices: Indices) -> ir.Value:
    """x[i, :, j]: GatherND over the indexed axes; adjacent axes keep their place, others go first."""
    rank = ctx.rank(x)
    plan = plan_indices(ctx, indices)
    if len(plan.axes) == 1:
        return ctx.op.Gather(x, plan.indices[0], axis=plan.axes[0])
    picked = ctx.op.GatherND(ctx.transpose(x, to_front(rank, plan.axes)), stacked(ctx, plan))
    out_rank = rank - len(plan.axes) + plan.batch_rank
    picked.shape = ir.Shape([None] * out_rank)
    if plan.front or plan.axes[0] == 0:
        return picked
    before, batch = plan.axes[0], plan.batch_rank
    order = [*range(batch, batch + before), *range(batch), *range(batch + before, out_rank)]
    return ctx.transpose(picked, order)


@lowering("aten::embedding")
def embedding(
    ctx: Context,
    weight: ir.Value,
    indices: ir.Value,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> ir.Value:
    return ctx.op.Gather(weight, indices, axis=0)


@lowering("aten::index_select")
def index_select(ctx: Context, x: ir.Value, dim: int, index: ir.Value) -> ir.Value:
    if ctx.rank(x) == 0:
        return x
    at = index if ctx.rank(index) else ctx.unsqueeze(index, 0)
    return ctx.op.Gather(x, at, axis=ctx.axis(x, dim))


@lowering("aten::gather")
def gather(ctx: Context, x: ir.Value, dim: int, index: ir.Value, *, sparse_grad: bool = False) -> ir.Value:
    """out[i][j] = x[index[i][j]][j]; 0-D operands count as one element."""
    if ctx.rank(index) == 0:
        return ctx.reshape(ctx.op.GatherElements(ctx.reshape(x, [-1]), ctx.reshape(index, [1]), axis=0), [])
    data = x if ctx.rank(x) else ctx.reshape(x, [1])
    return ctx.op.GatherElements(data, index, axis=ctx.axis(data, dim))


@lowering("aten::take")
def take(ctx: Context, x: ir.Value, index: ir.Value) -> ir.Value:
    return ctx.op.Gather(ctx.flatten(x), index, axis=0)


@lowering("aten::take_along_dim")
def take_along_dim(ctx: Context, x: ir.Value, indices: ir.Value, dim: int | None = None) -> ir.Value:
    """Like gather, with the other axes broadcast; without dim both are flat."""
    if dim is None:
        return ctx.op.GatherElements(ctx.flatten(x), ctx.flatten(indices), axis=0)
    axis = ctx.axis(x, dim)
    data_shape = ctx.op.Concat(*_around(ctx, indices, axis, ctx.vector(ctx.size(x, axis))), axis=0)
    index_shape = ctx.op.Concat(*_around(ctx, x, axis, ctx.vector(ctx.size(indices, axis))), axis=0)
    return ctx.op.GatherElements(ctx.op.Expand(x, data_shape), ctx.op.Expand(indices, index_shape), axis=axis)


def _around(ctx: Context, x: ir.Value, axis: int, size: ir.Value) -> list[ir.Value]:
    """The shape of ``x`` with another size at ``axis``, in parts."""
    return [ctx.shape(x, 0, axis), size, ctx.shape(x, axis + 1)]


@lowering("aten::masked_select")
def masked_select(ctx: Context, x: ir.Value, mask: ir.Value) -> ir.Value:
    """Elements of x (in row order) where mask is true, both broadcast."""
    if x.shape != mask.shape or x.shape is None or not ctx.rank(x):
        ones = ctx.op.Equal(x, x) if x.dtype == BOOL else ctx.op.Equal(ctx.cast(x, BOOL), ctx.cast(x, BOOL))
        full = ctx.op.And(mask, ones)
        x = ctx.op.Expand(x, ctx.shape(full))
        mask = full
    return ctx.op.Compress(ctx.flatten(x), ctx.flatten(mask))


@lowering("aten::nonzero", "aten::argwhere")
def nonzero(ctx: Context, x: ir.Value) -> ir.Value:
    """Coordinates ``(n, rank)``; a 0-D tensor gives ``(0 or 1, 0)``."""
    mask = ctx.cast(x, BOOL)
    if ctx.rank(x) == 0:
        count = ctx.op.ReduceSum(ctx.cast(ctx.reshape(mask, [1]), INT64), [0], keepdims=1)
        return ctx.op.ConstantOfShape(ctx.op.Concat(count, [0], axis=0), value=ir.tensor([0], dtype=INT64))
    return ctx.op.Transpose(ctx.op.NonZero(mask), perm=[1, 0])


@lowering("aten::nonzero_numpy")
def nonzero_numpy(ctx: Context, x: ir.Value) -> tuple[ir.Value, ...]:
    mask = ctx.cast(x, BOOL)
    return tuple(mask_columns(ctx, mask if ctx.rank(x) else ctx.reshape(mask, [1])))


@lowering("aten::one_hot")
def one_hot(ctx: Context, x: ir.Value, num_classes: int | ir.Value = -1) -> ir.Value:
    depth: int | ir.Value = num_classes
    if isinstance(num_classes, int) and num_classes == -1:
        depth = ctx.op.Add(ctx.op.ReduceMax(ctx.flatten(x), [0], keepdims=1), 1)
    classes = ctx.vector(depth) if isinstance(depth, int) else depth
    if ctx.rank(x) == 0:
        return ctx.squeeze(ctx.op.OneHot(ctx.reshape(x, [1]), classes, ctx.constant([0, 1]), axis=-1), 0)
    return ctx.op.OneHot(x, classes, ctx.constant([0, 1]), axis=-1)


@lowering("aten::isin.Tensor_Tensor")
def isin(
    ctx: Context,
    elements: ir.Value,
    test_elements: ir.Value,
    *,
    assume_unique: bool = False,
    invert: bool = False,
) -> ir.Value:
    a, b = ctx.promote(elements, test_elements)
    hits = ctx.op.Equal(ctx.unsqueeze(a, -1), ctx.flatten(b))
    found = ctx.cast(ctx.op.ReduceSum(ctx.cast(hits, INT64), [-1], keepdims=0), BOOL)
    return ctx.op.Not(found) if invert else found


@lowering("aten::isin.Tensor_Scalar")
def isin_scalar(
    ctx: Context,
    elements: ir.Value,
    test_element: float,
    *,
    assume_unique: bool = False,
    invert: bool = False,
) -> ir.Value:
    a, b = ctx.promote(elements, test_element)
    found = ctx.op.Equal(a, b)
    return ctx.op.Not(found) if invert else found


@lowering("aten::isin.Scalar_Tensor")
def isin_of_scalar(
    ctx: Context,
    element: float,
    test_elements: ir.Value,
    *,
    assume_unique: bool = False,
    invert: bool = False,
) -> ir.Value:
    a, b = ctx.promote(element, test_elements)
    return isin(ctx, a, b, invert=invert)


def count_below(ctx: Context, edges: ir.Value, x: ir.Value, right: bool, out_int32: bool) -> ir.Value:
    """How many of the last axis of ``edges`` are below ``x`` (or equal, with ``right``); NaN is above all."""
    edges, x = ctx.promote(edges, x)
    below = ctx.op.LessOrEqual(edges, x) if right else ctx.op.Less(edges, x)
    if x.dtype is not None and x.dtype.is_floating_point():
        below = ctx.op.Or(below, ctx.op.IsNaN(x))
    count = ctx.op.ReduceSum(ctx.cast(below, INT64), [-1], keepdims=0)
    return ctx.cast(count, ir.DataType.INT32 if out_int32 else INT64)


@lowering("aten::bucketize.Tensor", "aten::bucketize.Scalar")
def bucketize(
    ctx: Context, x: ir.Value | float, boundaries: ir.Value, *, out_int32: bool = False, right: bool = False
) -> ir.Value:
    value = x if isinstance(x, ir.Value) else ctx.promote(x, boundaries)[0]
    return count_below(ctx, boundaries, ctx.unsqueeze(value, -1), right, out_int32)


@lowering("aten::searchsorted.Tensor", "aten::searchsorted.Scalar")
def searchsorted(
    ctx: Context,
    sorted_sequence: ir.Value,
    x: ir.Value | float,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: ir.Value | None = None,
) -> ir.Value:
    """Insertion points: row by row when the sequence has several axes."""
    if sorter is not None:
        sorted_sequence = ctx.op.GatherElements(sorted_sequence, ctx.cast(sorter, INT64), axis=-1)
    value = x if isinstance(x, ir.Value) else ctx.promote(x, sorted_sequence)[0]
    edges = sorted_sequence if ctx.rank(sorted_sequence) == 1 else ctx.unsqueeze(sorted_sequence, -2)
    return count_below(ctx, edges, ctx.unsqueeze(value, -1), right or side == "right", out_int32)


@lowering("aten::repeat_interleave.self_int")
def repeat_interleave(
    ctx: Context,
    x: ir.Value,
    repeats: int | ir.Value,
    dim: int | None = None,
    *,
    output_size: int | ir.Value | None = None,
) -> ir.Value:
    """Each slice ``repeats`` times in a row; without dim over the flat tensor."""
    data = ctx.flatten(x) if dim is None or not ctx.rank(x) else x
    axis = ctx.axis(data, dim or 0)
    grown = ctx.expand(
        ctx.unsqueeze(data, axis + 1), [*[-1] * (axis + 1), repeats, *[-1] * (ctx.rank(data) - axis - 1)]
    )
    sizes = ctx.sizes(data)
    # The repeated axis is the one size that Reshape works out itself.
    return ctx.reshape(grown, [*sizes[:axis], -1, *sizes[axis + 1 :]])


@lowering("aten::repeat_interleave.self_Tensor")
def repeat_interleave_tensor(
    ctx: Context,
    x: ir.Value,
    repeats: ir.Value,
    dim: int | None = None,
    *,
    output_size: int | ir.Value | None = None,
) -> ir.Value:
    data = ctx.flatten(x) if dim is None or not ctx.rank(x) else x
    axis = ctx.axis(data, dim or 0)
    counts = ctx.op.Expand(ctx.reshape(repeats, [-1]), ctx.vector(ctx.size(data, axis)))
    return ctx.op.Gather(data, repeated_positions(ctx, counts), axis=axis)


@lowering("aten::repeat_interleave.Tensor")
def repeat_interleave_counts(ctx: Context, repeats: ir.Value, *, output_size: int | ir.Value | None = None) -> ir.Value:
    return ctx.cast(repeated_positions(ctx, repeats), ctx.out_dtype)


def repeated_positions(ctx: Context, counts: ir.Value) -> ir.Value:
    """[2, 0, 1] → [0, 0, 2]: position t holds the number of entries that end at or before t."""
    ends = ctx.op.CumSum(ctx.cast(counts, INT64), ctx.constant(0))
    total = ctx.op.ReduceSum(ctx.cast(counts, INT64), [0], keepdims=1)
    # One more slot takes the entries that end at the very end.
    room = ctx.op.ConstantOfShape(ctx.op.Add(total, 1), value=ir.tensor([0], dtype=INT64))
    ones = ctx.op.Expand(ctx.constant(1), ctx.op.Shape(ends))
    steps = ctx.op.ScatterElements(room, ends, ones, axis=0, reduction="add")
    return ctx.op.Slice(ctx.op.CumSum(steps, ctx.constant(0)), [0], total, [0])


@lowering("aten::_unique2")
def unique2(
    ctx: Context, x: ir.Value, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> tuple[ir.Value | None, ...]:
    values, _, inverse, counts = ctx.op.Unique(_sortable(ctx, x), sorted=1, outputs=4)
    where = ctx.op.Reshape(inverse, ctx.shape(x)) if ctx.used(1) else None
    return ctx.cast(values, x.dtype), where, counts


@lowering("aten::unique_dim")
def unique_dim(
    ctx: Context,
    x: ir.Value,
    dim: int,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> tuple[ir.Value, ...]:
    values, _, inverse, counts = ctx.op.Unique(_sortable(ctx, x), sorted=1, axis=ctx.axis(x, dim), outputs=4)
    return ctx.cast(values, x.dtype), inverse, counts


def _sortable(ctx: Context, x: ir.Value) -> ir.Value:
    """Unique has runtime kernels for few types; the cast and its way back are exact."""
    kernels = (ir.DataType.FLOAT, ir.DataType.DOUBLE, INT64, ir.DataType.INT8)
    if x.dtype in kernels:
        return x
    floating = x.dtype is not None and x.dtype.is_floating_point()
    return ctx.cast(x, ir.DataType.FLOAT if floating else INT64)


@lowering("aten::masked_scatter")
def masked_scatter(ctx: Context, x: ir.Value, mask: ir.Value, source: ir.Value) -> ir.Value:
    """The k-th true element of mask (in row order) takes the k-th element of source."""
    target = ctx.vector([ctx.dim(dim) for dim in ctx.out_shape])
    data, full = x, ctx.op.Expand(mask, target)
    order = ctx.op.CumSum(ctx.cast(ctx.flatten(full), INT64), ctx.constant(0))
    picks = ctx.op.Max(ctx.op.Sub(order, 1), 0)
    # One more element lets an empty source be read where no mask is set.
    pool = ctx.op.Concat(ctx.flatten(source), ctx.constant([0], source.dtype), axis=0)
    taken = ctx.op.Reshape(ctx.op.Gather(pool, picks, axis=0), target)
    return ctx.op.Where(full, taken, data)


@lowering("aten::index_fill.int_Scalar", "aten::index_fill.int_Tensor")
def index_fill(ctx: Context, x: ir.Value, dim: int, index: ir.Value, value: ir.Value | float) -> ir.Value:
    """Slices at ``index`` along ``dim`` become ``value``."""
    if ctx.rank(x) == 0:
        return ctx.value(value, x.dtype)
    axis = ctx.axis(x, dim)
    hit = ctx.op.OneHot(ctx.reshape(index, [-1]), ctx.vector(ctx.size(x, axis)), ctx.constant([0, 1]), axis=-1)
    chosen = ctx.cast(ctx.op.ReduceSum(hit, [0], keepdims=0), BOOL)
    lined = ctx.unsqueeze(chosen, [*range(1, ctx.rank(x) - axis)]) if axis < ctx.rank(x) - 1 else chosen
    return ctx.op.Where(lined, ctx.value(value, x.dtype), x)
