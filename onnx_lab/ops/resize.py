"""Resizing images: nearest, linear, cubic, with and without antialiasing.

Resize says what torch means for whole-number nearest and for linear and cubic without antialiasing (tried
over many sizes). Elsewhere it does not: rounding differs for nearest at other ratios, and ONNX Runtime's
antialiasing gives other numbers. There, nearest picks by the indices that torch computes, and the others
multiply by the matrix of torch's weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from onnx_lab.lower.context import Context, Size
from onnx_lab.lower.registry import lowering
from onnx_lab.ops.resize_weights import ResizedAxis, pick, weights

FLOAT, DOUBLE, INT64 = ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.INT64
_NEAREST_TYPES = (FLOAT, ir.DataType.FLOAT16, ir.DataType.UINT8, ir.DataType.INT8, ir.DataType.INT32)
Scales = Sequence[float | None]


def _axes_by_size(ctx: Context, x: ir.Value, output_size: Sequence[Size], scales: Scales) -> list[ResizedAxis]:
    return [
        ResizedAxis(axis, ctx.size(x, axis), size, scale or None)
        for axis, (size, scale) in enumerate(zip(output_size, scales, strict=True), start=2)
    ]


def _axes(
    ctx: Context, x: ir.Value, output_size: Sequence[Size] | None, scale_factors: Sequence[float] | None
) -> list[ResizedAxis]:
    """The resized axes; a size that only a scale tells is floor(size · scale), in double."""
    if output_size is not None:
        return _axes_by_size(ctx, x, output_size, [None] * len(output_size))
    if scale_factors is None:
        ctx.unsupported("output_size", None)
    sizes: list[Size] = []
    for axis, scale in enumerate(ctx.fixed(scale_factors, "scale_factors"), start=2):
        size = ctx.size(x, axis)
        if isinstance(size, int):
            sizes.append(int(np.floor(np.float64(size) * scale)))
        else:
            sizes.append(ctx.cast(ctx.op.Floor(ctx.op.Mul(ctx.cast(size, DOUBLE), float(scale))), INT64))
    return _axes_by_size(ctx, x, sizes, scale_factors)


def _resize(ctx: Context, x: ir.Value, axes: Sequence[ResizedAxis], **attributes: object) -> ir.Value:
    """Resize by the scales that the user gave, else to the sizes."""
    places = [one.axis for one in axes]
    if all(one.scale is not None for one in axes):
        scales = ctx.constant([float(one.scale or 1) for one in axes], FLOAT)
        return ctx.op.Resize(x, None, scales, axes=places, **attributes)
    return ctx.op.Resize(x, None, None, ctx.vector([one.out for one in axes]), axes=places, **attributes)


def _refuse_integers(ctx: Context, x: ir.Value) -> None:
    if x.dtype is None or not x.dtype.is_floating_point():
        hint = "convert to float first: integers are rounded in a way of their own"
        ctx.unsupported("input", x, hint, final=True)


# -- nearest ----------------------------------------------------------------------------------------------


def nearest(ctx: Context, x: ir.Value, axes: Sequence[ResizedAxis], exact: bool) -> ir.Value:
    if not exact and x.dtype in _NEAREST_TYPES and all(one.repeats() for one in axes):
        return _resize(ctx, x, axes, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    small = _is_small_image(ctx, axes)
    for one in axes:
        index = pick(ctx, one, exact, small)
        x = x if index is None else ctx.op.Gather(x, index, axis=one.axis)
    return x


def _is_small_image(ctx: Context, axes: Sequence[ResizedAxis]) -> bool | ir.Value:
    """Torch has a kernel of its own for small images, which rounds differently."""
    sizes = [one.out for one in axes]
    if len(sizes) != 2:
        return False
    known = ctx.known(sizes)
    return sum(known) <= 128 if known is not None else ctx.op.LessOrEqual(ctx.op.Add(*map(ctx.value, sizes)), 128)


@lowering("aten::upsample_nearest1d.vec", "aten::upsample_nearest2d.vec", "aten::upsample_nearest3d.vec")
def upsample_nearest_vec(
    ctx: Context, input: ir.Value, output_size: Sequence[Size] | None, scale_factors: Sequence[float] | None
) -> ir.Value:
    return nearest(ctx, input, _axes(ctx, input, output_size, scale_factors), exact=False)


@lowering(
    "aten::_upsample_nearest_exact1d.vec", "aten::_upsample_nearest_exact2d.vec", "aten::_upsample_nearest_exact3d.vec"
)
def upsample_nearest_exact_vec(
    ctx: Context, input: ir.Value, output_size: Sequence[Size] | None, scale_factors: Sequence[float] | None
) -> ir.Value:
    return nearest(ctx, input, _axes(ctx, input, output_size, scale_factors), exact=True)


@lowering("aten::upsample_nearest1d")
def upsample_nearest1d(ctx: Context, x: ir.Value, output_size: Sequence[Size], scales: float | None = None) -> ir.Value:
    return nearest(ctx, x, _axes_by_size(ctx, x, output_size, [scales]), exact=False)


@lowering("aten::_upsample_nearest_exact1d")
def upsample_nearest_exact1d(
    ctx: Context, x: ir.Value, output_size: Sequence[Size], scales: float | None = None
) -> ir.Value:
    return nearest(ctx, x, _axes_by_size(ctx, x, output_size, [scales]), exact=True)


@lowering("aten::upsample_nearest2d")
def upsample_nearest2d(
    ctx: Context,
    x: ir.Value,
    output_size: Sequence[Size],
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> ir.Value:
    return nearest(ctx, x, _axes_by_size(ctx, x, output_size, [scales_h, scales_w]), exact=False)


@lowering("aten::_upsample_nearest_exact2d")
def upsample_nearest_exact2d(
    ctx: Context,
    x: ir.Value,
    output_size: Sequence[Size],
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> ir.Value:
    return nearest(ctx, x, _axes_by_size(ctx, x, output_size, [scales_h, scales_w]), exact=True)


@lowering("aten::upsample_nearest3d")
def upsample_nearest3d(
    ctx: Context,
    x: ir.Value,
    output_size: Sequence[Size],
    scales_d: float | None = None,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> ir.Value:
    return nearest(ctx, x, _axes_by_size(ctx, x, output_size, [scales_d, scales_h, scales_w]), exact=False)


@lowering("aten::_upsample_nearest_exact3d")
def upsample_nearest_exact3d(
    ctx: Context,
    x: ir.Value,
    output_size: Sequence[Size],
    scales_d: float | None = None,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> ir.Value:
    return nearest(ctx, x, _axes_by_size(ctx, x, output_size, [scales_d, scales_h, scales_w]), exact=True)


# -- linear and cubic -------------------------------------------------------------------------------------


def smooth(ctx: Context, x: ir.Value, axes: Sequence[ResizedAxis], kind: str, align_corners: bool) -> ir.Value:
    """``kind`` is ``linear`` or ``cubic``: one Resize where it gives torch's size and takes the type."""
    _refuse_integers(ctx, x)
    if x.dtype == DOUBLE or not all(one.scales_exactly() for one in axes):
        return by_weights(ctx, x, axes, kind, align_corners)
    return _resize(
        ctx,
        x,
        axes,
        mode=kind,
        coordinate_transformation_mode="align_corners" if align_corners else "half_pixel",
        cubic_coeff_a=-0.75 if kind == "cubic" else None,
    )


def by_weights(ctx: Context, x: ir.Value, axes: Sequence[ResizedAxis], kind: str, align_corners: bool) -> ir.Value:
    """One product with a ``(size, new size)`` matrix for each axis, last axis first."""
    _refuse_integers(ctx, x)
    dtype = DOUBLE if x.dtype == DOUBLE else FLOAT
    made = ctx.cast(x, dtype)
    rank = ctx.rank(x)
    for one in reversed(axes):
        matrix = weights(ctx, one, kind, align_corners)
        if matrix is None:
            continue
        made = ctx.swap(made, one.axis, -1)
        made = ctx.op.MatMul(made, ctx.cast(matrix, dtype))
        made.shape = ir.Shape([None] * rank)
        made = ctx.swap(made, one.axis, -1)
    return ctx.cast(made, x.dtype)


Smooth = Callable[[Context, ir.Value, Sequence[ResizedAxis], str, bool], ir.Value]
# (torch's name, number of spatial axes, how, kind)
_SMOOTH: tuple[tuple[str, int, Smooth, str], ...] = (
    ("upsample_linear1d", 1, smooth, "linear"),
    ("upsample_bilinear2d", 2, smooth, "linear"),
    ("upsample_trilinear3d", 3, smooth, "linear"),
    ("upsample_bicubic2d", 2, smooth, "cubic"),
    ("_upsample_bilinear2d_aa", 2, by_weights, "linear_aa"),
    ("_upsample_bicubic2d_aa", 2, by_weights, "cubic_aa"),
    ("_upsample_lanczos2d_aa", 2, by_weights, "lanczos_aa"),
)


def _register(name: str, spatial: int, how: Smooth, kind: str) -> None:
    """The ``.vec`` overload, and the default one with a scale argument for each axis."""

    def vec(
        ctx: Context,
        input: ir.Value,
        output_size: Sequence[Size] | None,
        align_corners: bool,
        scale_factors: Sequence[float] | None,
    ) -> ir.Value:
        return how(ctx, input, _axes(ctx, input, output_size, scale_factors), kind, align_corners)

    def one_scale(
        ctx: Context, x: ir.Value, output_size: Sequence[Size], align_corners: bool, scales: float | None = None
    ) -> ir.Value:
        return how(ctx, x, _axes_by_size(ctx, x, output_size, [scales]), kind, align_corners)

    def two_scales(
        ctx: Context,
        x: ir.Value,
        output_size: Sequence[Size],
        align_corners: bool,
        scales_h: float | None = None,
        scales_w: float | None = None,
    ) -> ir.Value:
        return how(ctx, x, _axes_by_size(ctx, x, output_size, [scales_h, scales_w]), kind, align_corners)

    def three_scales(
        ctx: Context,
        x: ir.Value,
        output_size: Sequence[Size],
        align_corners: bool,
        scales_d: float | None = None,
        scales_h: float | None = None,
        scales_w: float | None = None,
    ) -> ir.Value:
        return how(ctx, x, _axes_by_size(ctx, x, output_size, [scales_d, scales_h, scales_w]), kind, align_corners)

    default = (one_scale, two_scales, three_scales)[spatial - 1]
    vec.__name__, default.__name__ = f"{name.lstrip('_')}_vec", name.lstrip("_")
    lowering(f"aten::{name}.vec")(vec)
    lowering(f"aten::{name}")(default)


for _entry in _SMOOTH:
    _register(*_entry)
