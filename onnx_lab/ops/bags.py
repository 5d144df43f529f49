"""Rows in bags and segments: embedding_bag, segment_reduce, and embeddings whose rows have a greatest norm."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_lab.lower.context import Context
from onnx_lab.lower.registry import lowering

INT64, BOOL = ir.DataType.INT64, ir.DataType.BOOL
FLOAT, DOUBLE = ir.DataType.FLOAT, ir.DataType.DOUBLE
# Reduction -> what ScatterElements calls it, and its neutral element.
REDUCTIONS = {
    "sum": ("add", 0.0),
    "mean": ("add", 0.0),
    "max": ("max", -np.inf),
    "min": ("min", np.inf),
    "prod": ("mul", 1.0),
}


def _zero(ctx: Context) -> ir.Value:
    return ctx.constant(np.asarray(0))


def groups(ctx: Context, starts: ir.Value, count: ir.Value) -> ir.Value:
    """The group of each place 0 to count - 1 of the last axis: the last one that has started; -1 before the first.

    ``starts`` (*, groups) ascends along its last axis and is at most ``count``, a 1-D value.
    """
    op, rank = ctx.op, ctx.rank(starts)
    room = op.Add(count, 1)  # a group may start where all ends
    sizes = op.Concat(ctx.shape(starts, 0, rank - 1), room, axis=0) if rank > 1 else room
    none = op.ConstantOfShape(sizes, value=ir.Tensor(np.zeros(1, np.int64)))
    ones = op.Expand(ctx.constant(np.asarray(1)), ctx.shape(starts))
    begun = op.ScatterElements(none, starts, ones, axis=rank - 1, reduction="add")
    found = op.Sub(op.CumSum(begun, ctx.constant(np.asarray(rank - 1))), 1)
    made: ir.Value = op.Slice(found, [0], count, [rank - 1])
    made.shape = ir.Shape([*list(starts.shape or ())[:-1], None])
    return made


def _wide(ctx: Context, x: ir.Value) -> ir.Value:
    return x if x.dtype == DOUBLE else ctx.cast(x, FLOAT)


def _scattered(
    ctx: Context,
    data: ir.Value,
    place: ir.Value,
    sizes: ir.Value,
    axis: int,
    reduce: str,
    spoiling: ir.Value | None = None,
) -> ir.Value:
    """The elements of ``data`` reduced at their places of an axis.

    A maximum or minimum with NaN is NaN, or only where ``spoiling`` is true for that element.
    """
    op = ctx.op
    reduction, neutral = REDUCTIONS[reduce]
    rank = ctx.rank(data)
    lined = ctx.unsqueeze(place, list(range(axis + 1, rank))) if rank > axis + 1 else place
    where = op.Expand(lined, ctx.shape(data))

    def reduced(values: ir.Value, fill: float, how: str) -> ir.Value:
        dtype = values.dtype or FLOAT
        start = op.ConstantOfShape(sizes, value=ir.Tensor(np.full(1, fill, dtype.numpy())))
        return op.ScatterElements(start, where, values, axis=axis, reduction=how)

    if reduce not in ("max", "min"):
        return reduced(data, neutral, reduction)
    spoiled = op.IsNaN(data)
    made = reduced(op.Where(spoiled, ctx.constant(neutral, data.dtype), data), neutral, reduction)
    if spoiling is not None:
        spoiled = op.And(spoiled, spoiling)
    any_spoiled = op.Greater(reduced(ctx.cast(spoiled, INT64), 0, "add"), 0)
    return op.Where(any_spoiled, ctx.constant(np.nan, data.dtype), made)


# -- segments -------------------------------------------------------------------------------------------


@lowering("aten::segment_reduce")
def segment_reduce(
    ctx: Context,
    data: ir.Value,
    reduce: str,
    *,
    lengths: ir.Value | None = None,
    indices: ir.Value | None = None,
    offsets: ir.Value | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Any = None,
) -> ir.Value:
    """Each segment of an axis reduced; ``initial`` takes part once in every segment, the mean divides by the length."""
    op, axis = ctx.op, ctx.axis(data, axis)
    if indices is not None or (lengths is None and offsets is None):
        ctx.unsupported("indices" if indices is not None else "lengths", indices, "give lengths or offsets")
    if offsets is None:
        assert lengths is not None
        ends = op.CumSum(ctx.cast(lengths, INT64), ctx.constant(np.asarray(axis)))
        pads = [0] * (2 * axis + 2)
        pads[axis] = 1
        offsets = op.Pad(ends, ctx.constant(pads), _zero(ctx))
    offsets = ctx.cast(offsets, INT64)
    offsets.shape = ir.Shape([None] * (axis + 1))
    value = _wide(ctx, data)
    count = ctx.vector(ctx.size(data, axis))
    # What stands before the first segment or after the last goes to one more at the end.
    segments = op.Sub(op.Shape(offsets, start=axis, end=axis + 1), 1)
    place = groups(ctx, offsets, count)
    place = op.Where(op.Less(place, 0), segments, place)
    sizes = op.Concat(*_present(ctx.shape(data, 0, axis), op.Add(segments, 1), ctx.shape(data, axis + 1)), axis=0)
    made = op.Slice(_scattered(ctx, value, place, sizes, axis, reduce), [0], segments, [axis])
    ends = op.Slice(offsets, [1], [np.iinfo(np.int64).max], [axis])
    held = op.Sub(ends, op.Slice(offsets, [0], [-1], [axis]))
    held.shape = ir.Shape([None] * (axis + 1))
    return ctx.cast(_started(ctx, made, held, reduce, initial, ctx.rank(data) - axis - 1), ctx.out_dtype)


def _present(*parts: ir.Value) -> list[ir.Value]:
    """Those that are not surely empty."""
    return [part for part in parts if part.shape is None or part.shape[0] != 0]


def _started(ctx: Context, made: ir.Value, held: ir.Value, reduce: str, initial: Any, trailing: int) -> ir.Value:
    """The initial value put in; means divided by the lengths ``held``, without one NaN where there is nothing."""
    op, dtype = ctx.op, made.dtype
    if initial is not None:
        first = ctx.constant(float(initial), dtype)
        if reduce in ("max", "min"):
            # A number on one side and NaN on the other have NaN for extreme.
            extreme = getattr(op, reduce.title())(made, first)
            spoiled = op.Or(op.IsNaN(made), op.IsNaN(first))
            made = op.Where(spoiled, ctx.constant(np.nan, dtype), extreme)
        else:
            made = op.Mul(made, first) if reduce == "prod" else op.Add(made, first)
    if reduce != "mean":
        return made
    divisor = ctx.cast(held if initial is None else op.Max(held, 1), dtype)
    return op.Div(made, ctx.unsqueeze(divisor, list(range(-trailing, 0))) if trailing else divisor)


# -- bags -----------------------------------------------------------------------------------------------

_MODES = ("sum", "mean", "max")


@lowering("aten::embedding_bag.padding_idx")
def embedding_bag_padded(
    ctx: Context,
    weight: ir.Value,
    indices: ir.Value,
    offsets: ir.Value,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: ir.Value | None,
    include_last_offset: bool,
    padding_idx: int | None,
) -> tuple[ir.Value, None, None, None]:
    """Rows of ``weight`` reduced bag by bag; rows of padding count for nothing, and nothing gives zeros."""
    if any(ctx.used(index) for index in (1, 2, 3)):
        ctx.unsupported("the results", "places and sizes of the bags", "use torch.nn.functional.embedding_bag")
    op, reduce = ctx.op, _MODES[mode]
    indices, offsets = ctx.cast(indices, INT64), ctx.cast(offsets, INT64)
    rows = _wide(ctx, op.Gather(weight, indices, axis=0))
    if per_sample_weights is not None:
        rows = op.Mul(rows, op.Unsqueeze(ctx.cast(per_sample_weights, rows.dtype), [1]))
    rows.shape = ir.Shape([None, *list(weight.shape or (None, None))[1:]])
    bags = op.Shape(offsets)
    if include_last_offset:
        bags = op.Sub(bags, 1)
        offsets = op.Slice(offsets, [0], [-1], [0])
        offsets.shape = ir.Shape([None])
    place = groups(ctx, offsets, op.Shape(indices))
    if padding_idx is not None:
        place = op.Where(op.Equal(indices, _row(ctx, weight, padding_idx)), bags, place)
    made = _bagged(ctx, rows, place, bags, reduce, ctx.shape(weight, 1))
    return ctx.cast(made, ctx.out_dtype), None, None, None


def _row(ctx: Context, weight: ir.Value, index: int) -> ir.Value:
    """A row counted from the start."""
    return ctx.constant(np.asarray(index)) if index >= 0 else ctx.op.Add(ctx.value(ctx.size(weight, 0), INT64), index)


def _bagged(ctx: Context, rows: ir.Value, place: ir.Value, bags: ir.Value, reduce: str, width: ir.Value) -> ir.Value:
    """Rows reduced at the bags that they are in; a last bag for the padding is cut off."""
    op, dtype = ctx.op, rows.dtype or FLOAT
    room = op.Add(bags, 1)
    place.shape = ir.Shape([None])
    spoiling = _leads(ctx, place, room) if reduce == "max" else None
    made = _scattered(ctx, rows, place, op.Concat(room, width, axis=0), 0, reduce, spoiling)
    if reduce != "sum":
        ones = op.Expand(ctx.constant(1.0, dtype), op.Shape(place))
        none = op.ConstantOfShape(room, value=ir.Tensor(np.zeros(1, dtype.numpy())))
        held = op.Unsqueeze(op.ScatterElements(none, place, ones, axis=0, reduction="add"), [1])
        if reduce == "mean":
            made = op.Div(made, op.Max(held, 1.0))
        else:
            made = op.Where(op.Equal(held, 0.0), ctx.constant(0.0, dtype), made)
    return op.Slice(made, [0], bags, [0])


def _leads(ctx: Context, place: ir.Value, room: ir.Value) -> ir.Value:
    """Whether a row is the first of its bag, as a column: torch passes over NaN in all others."""
    op = ctx.op
    last = np.full(1, np.iinfo(np.int64).max)
    index = op.Range(_zero(ctx), op.Squeeze(op.Shape(place), [0]), ctx.constant(np.asarray(1)))
    first = op.ScatterElements(op.ConstantOfShape(room, value=ir.Tensor(last)), place, index, axis=0, reduction="min")
    return op.Unsqueeze(op.Equal(op.Gather(first, place, axis=0), index), [1])


@lowering("aten::embedding_bag")
def embedding_bag(
    ctx: Context,
    weight: ir.Value,
    indices: ir.Value,
    offsets: ir.Value,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: ir.Value | None = None,
    include_last_offset: bool = False,
) -> tuple[ir.Value, None, None, None]:
    return embedding_bag_padded(
        ctx, weight, indices, offsets, False, mode, False, per_sample_weights, include_last_offset, None
    )


@lowering("aten::_embedding_bag", "aten::_embedding_bag_forward_only")
def embedding_bag_padded_from_start(
    ctx: Context,
    weight: ir.Value,
    indices: ir.Value,
    offsets: ir.Value,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: ir.Value | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[ir.Value, None, None, None]:
    """Here -1 is no padding."""
    padding = None if padding_idx < 0 else padding_idx
    return embedding_bag_padded(
        ctx, weight, indices, offsets, False, mode, False, per_sample_weights, include_last_offset, padding
    )


# -- rows of a greatest norm ----------------------------------------------------------------------------


def _norms(ctx: Context, rows: ir.Value, order: float) -> ir.Value:
    """The norm of each row, as a column."""
    op = ctx.op
    if order in (1, 2):
        return op.emit(f"ReduceL{int(order)}", [rows, [1]], keepdims=1)
    size = op.Abs(rows)
    if math.isinf(order):
        return op.emit("ReduceMax" if order > 0 else "ReduceMin", [size, [1]], keepdims=1)
    if order == 0:
        return op.ReduceSum(ctx.cast(op.Greater(size, 0.0), rows.dtype), [1], keepdims=1)
    return op.Pow(op.ReduceSum(op.Pow(size, order), [1], keepdims=1), 1 / order)


@lowering("aten::embedding_renorm")
def embedding_renorm(ctx: Context, x: ir.Value, indices: ir.Value, max_norm: float, norm_type: float) -> ir.Value:
    """Rows that are read and longer than ``max_norm`` are scaled to it, as torch does by max / (norm + 1e-7).

    A row that is read twice is written twice with one content.
    """
    op = ctx.op
    places = ctx.flatten(ctx.cast(indices, INT64))
    read = op.Gather(x, places, axis=0)
    rows = _wide(ctx, read)
    norms = _norms(ctx, rows, norm_type)
    limit = ctx.constant(max_norm, rows.dtype)
    factor = op.Where(op.Greater(norms, limit), op.Div(limit, op.Add(norms, 1e-7)), ctx.constant(1.0, rows.dtype))
    return op.ScatterND(x, ctx.unsqueeze(places, 1), ctx.cast(op.Mul(rows, factor), x.dtype))
