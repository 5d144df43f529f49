"""Padding: constant, reflected, replicated, circular."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnx_lab.lower.context import Context, Number, Size
from onnx_lab.lower.registry import lowering

_ONNX_MODE = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
_ENUM = ("reflect", "replicate", "circular", "constant")


@lowering("aten::pad")
def pad(ctx: Context, x: ir.Value, pad: Sequence[Size], mode: str = "constant", value: float | None = None) -> ir.Value:
    """``pad`` holds (begin, end) of the last axis, then of the one before it, and so on."""
    if mode == "constant":
        return constant_pad_nd(ctx, x, pad, 0 if value is None else value)
    return padded(ctx, x, pad, mode)


@lowering("aten::constant_pad_nd")
def constant_pad_nd(ctx: Context, x: ir.Value, pad: Sequence[Size], value: Number | ir.Value = 0) -> ir.Value:
    """A negative width crops, in ONNX as in torch."""
    if not pad:
        return x
    axes, widths = _onnx_pads(ctx, x, pad)
    return ctx.op.Pad(x, widths, ctx.value(value, x.dtype), axes)


@lowering("aten::_pad_enum")
def pad_enum(ctx: Context, x: ir.Value, pad: Sequence[Size], mode: int, value: float | None = None) -> ir.Value:
    return ctx.lower("aten::pad", x, pad, _ENUM[mode], value)


@lowering("aten::reflection_pad1d", "aten::reflection_pad2d", "aten::reflection_pad3d")
def reflection_pad(ctx: Context, x: ir.Value, padding: Sequence[Size]) -> ir.Value:
    return padded(ctx, x, padding, "reflect")


@lowering("aten::replication_pad1d", "aten::replication_pad2d", "aten::replication_pad3d")
def replication_pad(ctx: Context, x: ir.Value, padding: Sequence[Size]) -> ir.Value:
    return padded(ctx, x, padding, "replicate")


@lowering("aten::_pad_circular")
def pad_circular(ctx: Context, x: ir.Value, pad: Sequence[Size]) -> ir.Value:
    return padded(ctx, x, pad, "circular")


def padded(ctx: Context, x: ir.Value, pad: Sequence[Size], mode: str) -> ir.Value:
    """The modes that repeat elements of x; what is negative is cropped afterwards."""
    grown: list[Size] = [max(width, 0) if isinstance(width, int) else width for width in pad]
    cropped = [min(width, 0) if isinstance(width, int) else 0 for width in pad]
    if any(cropped):
        if mode == "circular":
            ctx.unsupported("pad", pad, "crop first, then pad")
        return constant_pad_nd(ctx, padded(ctx, x, grown, mode), cropped)
    if not any(not isinstance(width, int) or width for width in grown):
        return x
    if mode == "circular" and (ctx.opset < 19 or 0 in ctx.sizes(x)):
        return _wrapped(ctx, x, grown)
    axes, widths = _onnx_pads(ctx, x, grown)
    made: ir.Value = ctx.op.Pad(x, widths, None, axes, mode=_ONNX_MODE[mode])
    made.shape = ir.Shape([None] * ctx.rank(x))
    return made


def _wrapped(ctx: Context, x: ir.Value, pad: Sequence[Size]) -> ir.Value:
    """One axis at a time: its end, itself, its start."""
    for axis, begin, end in _by_axis(ctx, x, pad):
        parts = [x]
        if not isinstance(begin, int) or begin:
            tail = ctx.op.Neg(ctx.vector(begin))
            parts.insert(0, ctx.op.Slice(x, tail, [2**63 - 1], [axis]))
        if not isinstance(end, int) or end:
            parts.append(ctx.op.Slice(x, [0], ctx.vector(end), [axis]))
        x = ctx.op.Concat(*parts, axis=axis) if len(parts) > 1 else x
        x.shape = ir.Shape([None] * len(x.shape)) if x.shape is not None else None
    return x


def _by_axis(ctx: Context, x: ir.Value, pad: Sequence[Size]) -> list[tuple[int, Size, Size]]:
    """(axis, begin, end) in ascending order of axes."""
    rank = ctx.rank(x)
    pairs = list(zip(pad[::2], pad[1::2], strict=True))
    return [(rank - 1 - number, *pair) for number, pair in enumerate(pairs)][::-1]


def _onnx_pads(ctx: Context, x: ir.Value, pad: Sequence[Size]) -> tuple[ir.Value, ir.Value]:
    """Axes, and all begins followed by all ends; axes that stay as they are are left out."""
    wanted = [one for one in _by_axis(ctx, x, pad) if one[1:] != (0, 0)]
    axes, begins, ends = ([one[field] for one in wanted] for field in range(3))
    return ctx.constant(axes, ir.DataType.INT64), ctx.vector([*begins, *ends])
