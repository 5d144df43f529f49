"""Mixtures of experts: rows sorted by expert, each group multiplied by the weight of its expert."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from onnx_lab.lower.context import Context
from onnx_lab.lower.registry import lowering

INT64 = ir.DataType.INT64
_MOST_EXPERTS = 512


@lowering("transformers::grouped_mm_fallback")
def grouped_rows(ctx: Context, input: ir.Value, weight: ir.Value, offs: ir.Value) -> ir.Value:
    """(S, K) rows, (E, K, N) weights and the (E,) ends of the groups give (S, N).

    One product an expert, on its own rows only; rows after the last group are zero.
    """
    experts = ctx.fixed_size(weight, 0, "the number of experts")
    if experts > _MOST_EXPERTS:
        ctx.unsupported("weight", f"{experts} experts", f"at most {_MOST_EXPERTS} are unrolled")
    op, ends = ctx.op, ctx.cast(offs, INT64)
    start, made = ctx.constant([0]), []
    for expert in range(experts):
        end = op.Slice(ends, [expert], [expert + 1], [0])
        rows = op.Slice(input, start, end, [0])
        made.append(op.MatMul(rows, op.Gather(weight, ctx.constant(expert), axis=0)))
        start = end
    whole = op.Concat(*made, axis=0)
    missing = op.Sub(ctx.shape(input, 0, 1), start)
    return op.Pad(whole, op.Concat(ctx.constant([0, 0]), missing, ctx.constant([0]), axis=0))


@lowering("aten::_grouped_mm")
def grouped_mm(
    ctx: Context,
    x: ir.Value,
    mat2: ir.Value,
    offs: ir.Value | None = None,
    bias: ir.Value | None = None,
    out_dtype: Any = None,
) -> ir.Value:
    """The form with sorted rows; the other layouts of groups are refused."""
    if offs is None or ctx.rank(x) != 2 or ctx.rank(mat2) != 3:
        ctx.unsupported("offs", offs, "only (S, K) rows with (E, K, N) weights and offsets have a lowering")
    if bias is not None:
        ctx.unsupported("bias", bias, "add it afterwards")
    return ctx.cast(grouped_rows(ctx, x, mat2, offs), ctx.out_dtype)
