"""Comparisons, logic, bits, extrema and selection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_lab.lower.context import Context
from onnx_lab.lower.registry import lowering

Operand = Any  # ir.Value or a Python number
INT64, INT32, BOOL = ir.DataType.INT64, ir.DataType.INT32, ir.DataType.BOOL

COMPARISONS = {"lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual", "eq": "Equal"}
LOGICAL = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}
BITWISE = {
    "bitwise_and": ("And", "BitwiseAnd"),
    "bitwise_or": ("Or", "BitwiseOr"),
    "bitwise_xor": ("Xor", "BitwiseXor"),
}
BITWISE |= {"__and__": BITWISE["bitwise_and"], "__or__": BITWISE["bitwise_or"], "__xor__": BITWISE["bitwise_xor"]}
# Runtime kernels of Less and its kin; other types are compared as one of these, exactly.
_ORDERED = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE, INT32, INT64})


def _comparable(ctx: Context, x: Operand, other: Operand) -> list[ir.Value]:
    pair = ctx.promote(x, other)
    dtype = pair[0].dtype
    if dtype in _ORDERED or dtype is None:
        return pair
    wide = ir.DataType.FLOAT if dtype.is_floating_point() else INT64
    return [ctx.cast(one, wide) for one in pair]


def _compare(op_type: str) -> Callable[..., ir.Value]:
    def compare(ctx: Context, x: Operand, other: Operand) -> ir.Value:
        pair = ctx.promote(x, other) if op_type == "Equal" else _comparable(ctx, x, other)
        return getattr(ctx.op, op_type)(*pair)

    return compare


for name, op_type in COMPARISONS.items():
    lowering(f"aten::{name}.Tensor", f"aten::{name}.Scalar")(_compare(op_type))


@lowering("aten::ne.Tensor", "aten::ne.Scalar")
def ne(ctx: Context, x: Operand, other: Operand) -> ir.Value:
    return ctx.op.Not(ctx.op.Equal(*ctx.promote(x, other)))


def _logical(op_type: str) -> Callable[..., ir.Value]:
    def logical(ctx: Context, x: ir.Value, other: ir.Value) -> ir.Value:
        return getattr(ctx.op, op_type)(ctx.cast(x, BOOL), ctx.cast(other, BOOL))

    return logical


for name, op_type in LOGICAL.items():
    lowering(f"aten::{name}")(_logical(op_type))


@lowering("aten::logical_not")
def logical_not(ctx: Context, x: ir.Value) -> ir.Value:
    return ctx.op.Not(ctx.cast(x, BOOL))


def _bitwise(on_bools: str, on_ints: str) -> Callable[..., ir.Value]:
    def bitwise(ctx: Context, x: Operand, other: Operand) -> ir.Value:
        pair = [ctx.value(one, ctx.out_dtype) for one in (x, other)]
        return getattr(ctx.op, on_bools if ctx.out_dtype == BOOL else on_ints)(*pair)

    return bitwise


for name, types in BITWISE.items():
    lowering(f"aten::{name}.Tensor", f"aten::{name}.Scalar")(_bitwise(*types))
    if name.startswith("bitwise"):
        lowering(f"aten::{name}.Scalar_Tensor")(_bitwise(*types))


@lowering("aten::bitwise_not")
def bitwise_not(ctx: Context, x: ir.Value) -> ir.Value:
    return ctx.op.Not(x) if x.dtype == BOOL else ctx.op.BitwiseNot(x)


@lowering("aten::isnan")
def isnan(ctx: Context, x: ir.Value) -> ir.Value:
    return ctx.op.IsNaN(x) if _floating(x) else _all(ctx, x, False)


@lowering("aten::isinf")
def isinf(ctx: Context, x: ir.Value) -> ir.Value:
    return ctx.op.IsInf(_for_isinf(ctx, x)) if _floating(x) else _all(ctx, x, False)


@lowering("aten::isfinite")
def isfinite(ctx: Context, x: ir.Value) -> ir.Value:
    if not _floating(x):
        return _all(ctx, x, True)
    return ctx.op.Not(ctx.op.Or(ctx.op.IsInf(_for_isinf(ctx, x)), ctx.op.IsNaN(x)))


@lowering("aten::isposinf")
def isposinf(ctx: Context, x: ir.Value) -> ir.Value:
    return ctx.op.IsInf(_for_isinf(ctx, x), detect_negative=0) if _floating(x) else _all(ctx, x, False)


@lowering("aten::isneginf")
def isneginf(ctx: Context, x: ir.Value) -> ir.Value:
    return ctx.op.IsInf(_for_isinf(ctx, x), detect_positive=0) if _floating(x) else _all(ctx, x, False)


def _for_isinf(ctx: Context, x: ir.Value) -> ir.Value:
    """IsInf takes half precision from opset 20 on; the cast is exact."""
    return x if x.dtype in (ir.DataType.FLOAT, ir.DataType.DOUBLE) else ctx.cast(x, ir.DataType.FLOAT)


def _floating(x: ir.Value) -> bool:
    return x.dtype is not None and x.dtype.is_floating_point()


def _all(ctx: Context, x: ir.Value, answer: bool) -> ir.Value:
    return ctx.op.ConstantOfShape(ctx.shape(x), value=ir.Tensor(np.asarray([answer])))


# -- extrema --------------------------------------------------------------------------------------------


def _extremum(ctx: Context, op_type: str, x: Operand, other: Operand) -> ir.Value:
    a, b = ctx.value(x, ctx.out_dtype), ctx.value(other, ctx.out_dtype)
    if ctx.out_dtype == BOOL:
        return ctx.op.Or(a, b) if op_type == "Max" else ctx.op.And(a, b)
    kernels = (
        ir.DataType.FLOAT,
        ir.DataType.DOUBLE,
        ir.DataType.FLOAT16,
        INT32,
        INT64,
        ir.DataType.UINT32,
        ir.DataType.UINT64,
    )
    if ctx.out_dtype in kernels:
        return getattr(ctx.op, op_type)(a, b)
    wide = ir.DataType.FLOAT if ctx.out_dtype.is_floating_point() else INT64
    return ctx.cast(getattr(ctx.op, op_type)(ctx.cast(a, wide), ctx.cast(b, wide)), ctx.out_dtype)


@lowering("aten::maximum", "aten::max.other")
def maximum(ctx: Context, x: ir.Value, other: ir.Value) -> ir.Value:
    """NaN wins, in torch as in the runtime."""
    return _extremum(ctx, "Max", x, other)


@lowering("aten::minimum", "aten::min.other")
def minimum(ctx: Context, x: ir.Value, other: ir.Value) -> ir.Value:
    return _extremum(ctx, "Min", x, other)


def _ignoring_nan(ctx: Context, op_type: str, x: ir.Value, other: ir.Value) -> ir.Value:
    if not ctx.out_dtype.is_floating_point():
        return _extremum(ctx, op_type, x, other)
    a, b = ctx.cast(x, ctx.out_dtype), ctx.cast(other, ctx.out_dtype)
    made = _extremum(ctx, op_type, a, b)
    return ctx.op.Where(ctx.op.IsNaN(a), b, ctx.op.Where(ctx.op.IsNaN(b), a, made))


@lowering("aten::fmax")
def fmax(ctx: Context, x: ir.Value, other: ir.Value) -> ir.Value:
    return _ignoring_nan(ctx, "Max", x, other)


@lowering("aten::fmin")
def fmin(ctx: Context, x: ir.Value, other: ir.Value) -> ir.Value:
    return _ignoring_nan(ctx, "Min", x, other)


@lowering("aten::clamp", "aten::clamp.Tensor", "aten::clip", "aten::clip.Tensor")
def clamp(ctx: Context, x: ir.Value, min: Operand | None = None, max: Operand | None = None) -> ir.Value:
    """Lower bound first, then the upper one, so that the upper one wins when they cross."""
    value = ctx.cast(x, ctx.out_dtype)
    if min is not None:
        value = _extremum(ctx, "Max", value, min)
    return value if max is None else _extremum(ctx, "Min", value, max)


@lowering("aten::clamp_min", "aten::clamp_min.Tensor")
def clamp_min(ctx: Context, x: ir.Value, min: Operand) -> ir.Value:
    return _extremum(ctx, "Max", x, min)


@lowering("aten::clamp_max", "aten::clamp_max.Tensor")
def clamp_max(ctx: Context, x: ir.Value, max: Operand) -> ir.Value:
    return _extremum(ctx, "Min", x, max)


# -- selection ------------------------------------------------------------------------------------------


@lowering("aten::where.self", "aten::where.ScalarOther", "aten::where.ScalarSelf", "aten::where.Scalar")
def where(ctx: Context, condition: ir.Value, x: Operand, other: Operand) -> ir.Value:
    a, b = ctx.value(x, ctx.out_dtype), ctx.value(other, ctx.out_dtype)
    return ctx.op.Where(ctx.cast(condition, BOOL), a, b)


@lowering("aten::masked_fill.Scalar", "aten::masked_fill.Tensor")
def masked_fill(ctx: Context, x: ir.Value, mask: ir.Value, value: Operand) -> ir.Value:
    return ctx.op.Where(ctx.cast(mask, BOOL), ctx.value(value, x.dtype), x)


@lowering("aten::nan_to_num")
def nan_to_num(
    ctx: Context, x: ir.Value, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> ir.Value:
    if not _floating(x) or x.dtype is None:
        return x
    limits = np.finfo(np.float32 if x.dtype == ir.DataType.BFLOAT16 else x.dtype.numpy())
    wide = _for_isinf(ctx, x)
    high = float(limits.max) if posinf is None else posinf
    low = float(limits.min) if neginf is None else neginf
    made = ctx.op.Where(ctx.op.IsNaN(x), ctx.constant(nan or 0.0, x.dtype), x)
    made = ctx.op.Where(ctx.op.IsInf(wide, detect_negative=0), ctx.constant(high, x.dtype), made)
    return ctx.op.Where(ctx.op.IsInf(wide, detect_positive=0), ctx.constant(low, x.dtype), made)


@lowering("aten::heaviside")
def heaviside(ctx: Context, x: ir.Value, values: ir.Value) -> ir.Value:
    zero = ctx.constant(0, x.dtype)
    step = ctx.cast(ctx.op.Less(zero, x), x.dtype)
    return ctx.op.Where(ctx.op.Equal(x, zero), values, step)


@lowering("aten::isclose")
def isclose(
    ctx: Context, x: ir.Value, other: ir.Value, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> ir.Value:
    a, b = ctx.promote(x, other)
    op, equal = ctx.op, ctx.op.Equal(a, b)
    if equal_nan and _floating(a):
        equal = op.Or(equal, op.And(op.IsNaN(a), op.IsNaN(b)))
    wide = [one if _floating(one) else ctx.cast(one, ir.DataType.FLOAT) for one in (a, b)]
    gap = op.Abs(op.Sub(*wide))
    room = op.Add(op.Mul(op.Abs(wide[1]), rtol), atol)
    finite = op.Not(op.Or(op.IsInf(wide[1]), op.IsInf(gap)))
    return op.Or(equal, op.And(finite, op.LessOrEqual(gap, room)))
