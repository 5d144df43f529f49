"""Tensors by strides: as_strided, and allocation. ONNX values have no strides, so places in memory are counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_lab.lower.context import Context, Size
from onnx_lab.lower.registry import lowering
from onnx_lab.program.spec import TensorSpec


def _places(ctx: Context, size: Sequence[Size], stride: Sequence[Size], storage_offset: Size | None) -> Any:
    """For each element of the result, its place among the elements of self in the order of their indices.

    Needs to know how self lies in memory, and that all places asked for are elements of self.
    """
    spec = ctx.argument_spec(0)
    shape = [dim for dim in spec.shape if isinstance(dim, int)] if isinstance(spec, TensorSpec) else []
    if not isinstance(spec, TensorSpec) or spec.strides is None or len(shape) < spec.rank:
        ctx.unsupported("self", "a tensor whose strides are not fixed", "use slicing, unfold or gather instead")
    sizes, strides = ctx.fixed(list(size), "size"), ctx.fixed(list(stride), "stride")
    start = spec.offset if storage_offset is None else ctx.fixed(storage_offset, "storage_offset")
    places = np.full(sizes, start - spec.offset, dtype=np.int64)
    for axis, (count, step) in enumerate(zip(sizes, strides, strict=True)):
        places += (np.arange(count) * step).reshape([-1 if one == axis else 1 for one in range(len(sizes))])
    memory = np.zeros(shape, dtype=np.int64)
    for axis, step in enumerate(spec.strides):
        memory += (np.arange(shape[axis]) * step).reshape([-1 if one == axis else 1 for one in range(len(shape))])
    known = memory.reshape(-1)
    order = np.argsort(known, kind="stable")
    at = np.searchsorted(known[order], places.reshape(-1))
    inside = at < known.size
    if places.size and not (inside.all() and (known[order][at] == places.reshape(-1)).all()):
        ctx.unsupported("size", sizes, "it reaches memory outside of the tensor: apply it to the base tensor")
    return order[at].reshape(places.shape) if places.size else places


@lowering("aten::as_strided", "aten::as_strided_copy")
def as_strided(
    ctx: Context, x: ir.Value, size: Sequence[Size], stride: Sequence[Size], storage_offset: Size | None = None
) -> ir.Value:
    places = _places(ctx, size, stride, storage_offset)
    made: ir.Value = ctx.op.Gather(ctx.flatten(x), ctx.constant(places))
    made.shape = ir.Shape(list(places.shape))
    return made


@lowering("aten::as_strided_scatter")
def as_strided_scatter(
    ctx: Context,
    x: ir.Value,
    src: ir.Value,
    size: Sequence[Size],
    stride: Sequence[Size],
    storage_offset: Size | None = None,
) -> ir.Value:
    places = _places(ctx, size, stride, storage_offset)
    if len(np.unique(places)) != places.size:
        ctx.unsupported("stride", stride, "several elements lie at one place: which one stays is not defined")
    flat = ctx.op.ScatterElements(
        ctx.flatten(x), ctx.constant(places.reshape(-1)), ctx.flatten(ctx.cast(src, x.dtype)), axis=0
    )
    return ctx.reshape(flat, ctx.sizes(x))


# -- allocation: what is in there is not defined, so it is zero ------------------------------------------


@lowering("aten::empty_strided")
def empty_strided(
    ctx: Context,
    size: Sequence[Size],
    stride: Sequence[Size],
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
) -> ir.Value:
    return ctx.full(size, 0, ctx.out_dtype)


@lowering("aten::new_empty_strided")
def new_empty_strided(
    ctx: Context,
    x: ir.Value,
    size: Sequence[Size],
    stride: Sequence[Size],
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
) -> ir.Value:
    return ctx.full(size, 0, ctx.out_dtype)


@lowering("aten::empty_permuted")
def empty_permuted(
    ctx: Context,
    size: Sequence[Size],
    physical_layout: Sequence[int],
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
) -> ir.Value:
    return ctx.full(size, 0, ctx.out_dtype)
