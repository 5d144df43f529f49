"""Tensors made from sizes and numbers, and copies of tensors in another type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_lab.lower.context import Context, Size
from onnx_lab.lower.registry import lowering

Sizes = Sequence[Size]
INT64 = ir.DataType.INT64


@lowering("aten::full")
def full(
    ctx: Context,
    size: Sizes,
    fill_value: Any,
    *,
    dtype: ir.DataType | None = None,
    layout: str | None = None,
    device: str | None = None,
    pin_memory: bool | None = None,
) -> ir.Value:
    return ctx.full(size, fill_value, ctx.out_dtype)


FILL = {"zeros": 0, "ones": 1, "empty": 0}


def _filled(fill: int) -> Any:
    def filled(
        ctx: Context,
        size: Sizes,
        *,
        dtype: ir.DataType | None = None,
        layout: str | None = None,
        device: str | None = None,
        pin_memory: bool | None = None,
        memory_format: str | None = None,
    ) -> ir.Value:
        return ctx.full(size, fill, ctx.out_dtype)

    return filled


def _new_filled(fill: int) -> Any:
    def new_filled(
        ctx: Context,
        x: ir.Value,
        size: Sizes,
        *,
        dtype: ir.DataType | None = None,
        layout: str | None = None,
        device: str | None = None,
        pin_memory: bool | None = None,
    ) -> ir.Value:
        return ctx.full(size, fill, ctx.out_dtype)

    return new_filled


def _filled_like(fill: int) -> Any:
    def filled_like(
        ctx: Context,
        x: ir.Value,
        *,
        dtype: ir.DataType | None = None,
        layout: str | None = None,
        device: str | None = None,
        pin_memory: bool | None = None,
        memory_format: str | None = None,
    ) -> ir.Value:
        return _like(ctx, x, fill)

    return filled_like


def _like(ctx: Context, x: ir.Value, fill: Any) -> ir.Value:
    """A tensor of x's shape; the shape is read at run time only when it is symbolic."""
    sizes = ctx.shape(x)
    if isinstance(fill, ir.Value):
        return ctx.op.Expand(ctx.cast(fill, ctx.out_dtype), sizes)
    fixed = ctx.op.constants.array(sizes)
    if fixed is not None:
        return ctx.full([int(size) for size in fixed], fill, ctx.out_dtype)
    content = ir.Tensor(np.asarray([fill]).astype(ctx.out_dtype.numpy()), dtype=ctx.out_dtype)
    return ctx.op.ConstantOfShape(sizes, value=content)


for name, fill in FILL.items():
    key = "aten::empty.memory_format" if name == "empty" else f"aten::{name}"
    lowering(key)(_filled(fill))
    lowering(f"aten::new_{name}")(_new_filled(fill))
    lowering(f"aten::{name}_like")(_filled_like(fill))


@lowering("aten::new_full")
def new_full(
    ctx: Context,
    x: ir.Value,
    size: Sizes,
    fill_value: Any,
    *,
    dtype: ir.DataType | None = None,
    layout: str | None = None,
    device: str | None = None,
    pin_memory: bool | None = None,
) -> ir.Value:
    return ctx.full(size, fill_value, ctx.out_dtype)


@lowering("aten::full_like")
def full_like(
    ctx: Context,
    x: ir.Value,
    fill_value: Any,
    *,
    dtype: ir.DataType | None = None,
    layout: str | None = None,
    device: str | None = None,
    pin_memory: bool | None = None,
    memory_format: str | None = None,
) -> ir.Value:
    return _like(ctx, x, fill_value)


@lowering("aten::fill.Scalar", "aten::fill.Tensor")
def fill_(ctx: Context, x: ir.Value, value: Any) -> ir.Value:
    return _like(ctx, x, value)


@lowering("aten::zero")
def zero(ctx: Context, x: ir.Value) -> ir.Value:
    return _like(ctx, x, 0)


@lowering("aten::scalar_tensor")
def scalar_tensor(
    ctx: Context,
    s: Any,
    *,
    dtype: ir.DataType | None = None,
    layout: str | None = None,
    device: str | None = None,
    pin_memory: bool | None = None,
) -> ir.Value:
    return ctx.value(s, ctx.out_dtype)


def _arange(ctx: Context, start: Any, end: Any, step: Any) -> ir.Value:
    """Counted in int64 or double, then cast: half precision would lose steps."""
    dtype = ctx.out_dtype
    if all(not isinstance(one, ir.Value) for one in (start, end, step)):
        return ctx.constant(np.arange(start, end, step).astype(dtype.numpy()), dtype)
    numbers = (start, end, step)
    whole = all(isinstance(one, int) or (isinstance(one, ir.Value) and one.dtype == INT64) for one in numbers)
    counted = INT64 if whole else ir.DataType.DOUBLE
    return ctx.cast(ctx.op.Range(*(ctx.value(one, counted) for one in numbers)), dtype)


@lowering("aten::arange")
def arange(
    ctx: Context,
    end: Any,
    *,
    dtype: ir.DataType | None = None,
    layout: str | None = None,
    device: str | None = None,
    pin_memory: bool | None = None,
) -> ir.Value:
    return _arange(ctx, 0, end, 1)


@lowering("aten::arange.start")
def arange_start(
    ctx: Context,
    start: Any,
    end: Any,
    *,
    dtype: ir.DataType | None = None,
    layout: str | None = None,
    device: str | None = None,
    pin_memory: bool | None = None,
) -> ir.Value:
    return _arange(ctx, start, end, 1)


@lowering("aten::arange.start_step")
def arange_step(
    ctx: Context,
    start: Any,
    end: Any,
    step: Any = 1,
    *,
    dtype: ir.DataType | None = None,
    layout: str | None = None,
    device: str | None = None,
    pin_memory: bool | None = None,
) -> ir.Value:
    return _arange(ctx, start, end, step)


@lowering("aten::linspace")
def linspace(
    ctx: Context,
    start: Any,
    end: Any,
    steps: Size,
    *,
    dtype: ir.DataType | None = None,
    layout: str | None = None,
    device: str | None = None,
    pin_memory: bool | None = None,
) -> ir.Value:
    """Evenly spaced, both ends included; counted from both ends as torch does, so that it is symmetric."""
    count = ctx.fixed(steps, "steps")
    if isinstance(start, ir.Value) or isinstance(end, ir.Value):
        ctx.unsupported("start" if isinstance(start, ir.Value) else "end", "a number known only at run time")
    wide = np.float64 if ctx.out_dtype.is_floating_point() else np.float32
    step = wide((end - start) / max(1, count - 1))
    index = np.arange(count)
    values = np.where(index < count // 2, start + step * index, end - step * (count - 1 - index))
    if count == 1:
        values = np.asarray([start], dtype=wide)
    return ctx.constant(values.astype(ctx.out_dtype.numpy()), ctx.out_dtype)


@lowering("aten::eye")
def eye(
    ctx: Context,
    n: Size,
    *,
    dtype: ir.DataType | None = None,
    layout: str | None = None,
    device: str | None = None,
    pin_memory: bool | None = None,
) -> ir.Value:
    return _eye(ctx, n, n)


@lowering("aten::eye.m")
def eye_m(
    ctx: Context,
    n: Size,
    m: Size,
    *,
    dtype: ir.DataType | None = None,
    layout: str | None = None,
    device: str | None = None,
    pin_memory: bool | None = None,
) -> ir.Value:
    return _eye(ctx, n, m)


def _eye(ctx: Context, rows: Size, columns: Size) -> ir.Value:
    row, column = (ctx.op.Range(0, ctx.value(one), 1) for one in (rows, columns))
    return ctx.cast(ctx.op.Equal(ctx.unsqueeze(row, 1), column), ctx.out_dtype)


def _triangle(ctx: Context, x: ir.Value, diagonal: Size, upper: int) -> ir.Value:
    kernels = (ir.DataType.FLOAT, ir.DataType.DOUBLE, INT64, ir.DataType.BOOL)
    wide = x if x.dtype in kernels else ctx.cast(x, _wider(x))
    return ctx.cast(ctx.op.Trilu(wide, ctx.value(diagonal, INT64), upper=upper), x.dtype)


def _wider(x: ir.Value) -> ir.DataType:
    floating = x.dtype is not None and x.dtype.is_floating_point()
    return ir.DataType.FLOAT if floating else INT64


@lowering("aten::tril")
def tril(ctx: Context, x: ir.Value, diagonal: Size = 0) -> ir.Value:
    return _triangle(ctx, x, diagonal, 0)


@lowering("aten::triu")
def triu(ctx: Context, x: ir.Value, diagonal: Size = 0) -> ir.Value:
    return _triangle(ctx, x, diagonal, 1)


@lowering("aten::meshgrid.indexing")
def meshgrid(ctx: Context, tensors: Sequence[ir.Value], *, indexing: str) -> tuple[ir.Value, ...]:
    return _meshgrid(ctx, tensors, indexing)


@lowering("aten::meshgrid")
def meshgrid_ij(ctx: Context, tensors: Sequence[ir.Value]) -> tuple[ir.Value, ...]:
    return _meshgrid(ctx, tensors, "ij")


def _meshgrid(ctx: Context, tensors: Sequence[ir.Value], indexing: str) -> tuple[ir.Value, ...]:
    flat = [one if ctx.rank(one) else ctx.reshape(one, [1]) for one in tensors]
    order = list(range(len(flat)))
    if indexing == "xy" and len(flat) > 1:
        order[0], order[1] = 1, 0
    sizes = ctx.vector([ctx.size(flat[position], 0) for position in order])
    made = []
    for number, one in enumerate(flat):
        axis = order.index(number)
        lined = ctx.unsqueeze(one, [other for other in range(len(flat)) if other != axis]) if len(flat) > 1 else one
        made.append(ctx.op.Expand(lined, sizes))
    return tuple(made)


# -- copies ---------------------------------------------------------------------------------------------


@lowering("aten::copy")
def copy(ctx: Context, x: ir.Value, src: ir.Value, non_blocking: bool = False) -> ir.Value:
    """Src in the type and shape of x."""
    value = ctx.cast(src, x.dtype)
    return value if value.shape == x.shape and _fixed(x) else ctx.op.Expand(value, ctx.shape(x))


def _fixed(x: ir.Value) -> bool:
    return x.shape is not None and all(isinstance(dim, int) for dim in x.shape)


@lowering("aten::to.dtype")
def to_dtype(
    ctx: Context,
    x: ir.Value,
    dtype: ir.DataType,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: str | None = None,
) -> ir.Value:
    return ctx.cast(x, ctx.out_dtype)


@lowering("aten::to.device")
def to_device(
    ctx: Context,
    x: ir.Value,
    device: str,
    dtype: ir.DataType,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: str | None = None,
) -> ir.Value:
    return ctx.cast(x, ctx.out_dtype)


@lowering("aten::to.other")
def to_other(
    ctx: Context,
    x: ir.Value,
    other: ir.Value,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: str | None = None,
) -> ir.Value:
    return ctx.cast(x, ctx.out_dtype)


@lowering("aten::to.dtype_layout")
def to_dtype_layout(
    ctx: Context,
    x: ir.Value,
    *,
    dtype: ir.DataType | None = None,
    layout: str | None = None,
    device: str | None = None,
    pin_memory: bool | None = None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: str | None = None,
) -> ir.Value:
    return ctx.cast(x, ctx.out_dtype)


@lowering("aten::_to_copy")
def to_copy(
    ctx: Context,
    x: ir.Value,
    *,
    dtype: ir.DataType | None = None,
    layout: str | None = None,
    device: str | None = None,
    pin_memory: bool | None = None,
    non_blocking: bool = False,
    memory_format: str | None = None,
) -> ir.Value:
    return ctx.cast(x, ctx.out_dtype)


@lowering("aten::type_as")
def type_as(ctx: Context, x: ir.Value, other: ir.Value) -> ir.Value:
    return ctx.cast(x, ctx.out_dtype)


@lowering("prims::convert_element_type")
def convert_element_type(ctx: Context, a: ir.Value, dtype: ir.DataType) -> ir.Value:
    return ctx.cast(a, ctx.out_dtype)


@lowering("aten::contiguous")
def contiguous(ctx: Context, x: ir.Value, *, memory_format: str = "torch.contiguous_format") -> ir.Value:
    return x


@lowering("aten::clone", "aten::lift_fresh_copy")
def clone(ctx: Context, x: ir.Value, *, memory_format: str | None = None) -> ir.Value:
    """Values do not alias once writes are gone, so a copy is the value itself."""
    return x


@lowering(
    "aten::detach", "aten::alias", "aten::lift_fresh", "aten::resolve_conj", "aten::resolve_neg", "aten::positive"
)
def same(ctx: Context, x: ir.Value) -> ir.Value:
    return x


@lowering("aten::view.dtype")
def view_dtype(ctx: Context, x: ir.Value, dtype: ir.DataType) -> ir.Value:
    if x.dtype == dtype:
        return x
    return ctx.unsupported(
        "dtype", dtype, "reading the bits of a tensor as another type has no ONNX operator before opset 26"
    )


def _triangle_places(upper: bool) -> Any:
    def indices(
        ctx: Context,
        row: int,
        col: int,
        offset: int = 0,
        *,
        dtype: Any = 4,  # torch's number for int64
        layout: str | None = None,
        device: str | None = None,
        pin_memory: bool | None = None,
    ) -> ir.Value:
        """The places of a triangle, row by row: the sizes are always numbers."""
        inside = np.triu if upper else np.tril
        places = np.stack(np.nonzero(inside(np.ones((row, col)), offset)))
        return ctx.constant(places.astype(ctx.out_dtype.numpy()), ctx.out_dtype)

    return indices


lowering("aten::triu_indices")(_triangle_places(True))
lowering("aten::tril_indices")(_triangle_places(False))
