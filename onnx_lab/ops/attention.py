"""Scaled dot-product attention: the Attention operator where it says the same, else spelled out.

What was tried with ONNX Runtime's CPU kernel for Attention (opsets 23 and 24; newer ones have no kernel):
boolean masks are right once both last axes have full size, while for a float mask it takes the lowest
finite number for "forbidden", so that rows filled with it come out as zeros where torch averages.
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from onnx_lab.lower.context import Context, Size
from onnx_lab.lower.registry import lowering

BOOL, FLOAT = ir.DataType.BOOL, ir.DataType.FLOAT
_HALF = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
_KERNEL_TYPES = (FLOAT, ir.DataType.FLOAT16)  # double would be expanded with a scale in float
Mask = ir.Value | None


@lowering("aten::scaled_dot_product_attention")
def scaled_dot_product_attention(
    ctx: Context,
    query: ir.Value,
    key: ir.Value,
    value: ir.Value,
    attn_mask: Mask = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> ir.Value:
    """softmax(scale · q·kᵀ + mask) · v; half precision is computed in float as torch does."""
    _refuse(ctx, attn_mask, dropout_p, is_causal)
    dtype = query.dtype
    q, k, v = (ctx.cast(one, FLOAT) if dtype in _HALF else one for one in (query, key, value))
    if enable_gqa:
        k, v = (_repeat_heads(ctx, one, query) for one in (k, v))
    factor = _scale(ctx, query, scale)
    scores = ctx.op.MatMul(q if factor == 1 else ctx.op.Mul(q, factor), ctx.swap(k, -2, -1))
    opened = _open_rows(ctx, attn_mask, q.dtype or FLOAT)
    mask = causal_mask(ctx, ctx.size(query, -2), ctx.size(key, -2)) if is_causal else attn_mask
    if mask is not None:
        scores = ctx.op.Add(scores, _additive(ctx, mask, opened, q.dtype or FLOAT))
    made = ctx.op.MatMul(ctx.op.Softmax(scores, axis=-1), v)
    return ctx.cast(made if opened is None else ctx.op.Mul(made, opened), dtype)


@lowering("aten::scaled_dot_product_attention", since=23)
def scaled_dot_product_attention_23(
    ctx: Context,
    query: ir.Value,
    key: ir.Value,
    value: ir.Value,
    attn_mask: Mask = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> ir.Value:
    """One Attention operator; its causal mask is aligned top left as torch's."""
    _refuse(ctx, attn_mask, dropout_p, is_causal)
    factor = _scale(ctx, query, scale)
    if factor <= 0 or not _operator_fits(ctx, query, key, value) or not _mask_fits(ctx, query, attn_mask):
        return scaled_dot_product_attention(
            ctx, query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
    mask = _full_mask(ctx, attn_mask, query, key) if attn_mask is not None else None
    made = ctx.op.Attention(
        query, key, value, *([mask] if mask is not None else []), is_causal=int(is_causal) or None, scale=scale
    )
    opened = _open_rows(ctx, attn_mask, query.dtype or FLOAT)
    return made if opened is None else ctx.op.Mul(made, opened)


lowering("aten::scaled_dot_product_attention", since=25)(scaled_dot_product_attention)


@lowering("aten::_scaled_dot_product_flash_attention_for_cpu")
def flash_attention_for_cpu(
    ctx: Context,
    query: ir.Value,
    key: ir.Value,
    value: ir.Value,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Mask = None,
    scale: float | None = None,
) -> tuple[ir.Value]:
    if ctx.used(1):
        ctx.unsupported("its result", 1, "only the attention itself can be used")
    made = ctx.lower(
        "aten::scaled_dot_product_attention", query, key, value, attn_mask, dropout_p, is_causal, scale=scale
    )
    return (made,)


def _refuse(ctx: Context, attn_mask: Mask, dropout_p: float, is_causal: bool) -> None:
    if dropout_p > 0:
        ctx.unsupported("dropout_p", dropout_p, "export the model in eval mode")
    if is_causal and attn_mask is not None:
        ctx.unsupported("is_causal", True, "torch refuses it together with a mask")


def _scale(ctx: Context, query: ir.Value, scale: float | None) -> float:
    return 1 / math.sqrt(ctx.fixed_size(query, -1, "query") or 1) if scale is None else scale


# -- masks ------------------------------------------------------------------------------------------------


def causal_mask(ctx: Context, rows: Size, columns: Size) -> ir.Value:
    """(L, S) booleans: row i may look at columns 0 to i."""
    if isinstance(rows, int) and isinstance(columns, int) and rows * columns <= 4096:
        return ctx.constant(np.tri(rows, columns, dtype=np.bool_))
    row, column = (ctx.op.Range(ctx.constant(0), ctx.value(size), ctx.constant(1)) for size in (rows, columns))
    row.shape = column.shape = ir.Shape([None])
    return ctx.op.GreaterOrEqual(ctx.unsqueeze(row, 1), column)


def _additive(ctx: Context, mask: ir.Value, opened: ir.Value | None, dtype: ir.DataType) -> ir.Value:
    """What is added to the scores, made on the mask's own shape: finite in rows that forbid all."""
    if mask.dtype == BOOL:
        lowest = float(np.finfo(dtype.numpy()).min)
        return ctx.op.Where(mask, ctx.constant(0.0, dtype), ctx.constant(lowest, dtype))
    mask = ctx.cast(mask, dtype)
    return mask if opened is None else ctx.op.Where(ctx.cast(opened, BOOL), mask, 0.0)


def _open_rows(ctx: Context, mask: Mask, dtype: ir.DataType) -> ir.Value | None:
    """1 for each row of the mask that allows anything, 0 for the others; None when no row forbids all.

    Torch gives zeros where all is forbidden; ONNX Runtime does so only lately. It is found on the mask as it
    was given, before it is broadcast, so that it costs little.
    """
    if mask is None or ctx.size(mask, -1) == 0:
        return None  # a product over nothing is zero already
    known = ctx.op.constants.array(mask)
    if known is not None and (known if mask.dtype == BOOL else known > -math.inf).any(axis=-1).all():
        return None
    if mask.dtype == BOOL:
        return ctx.op.ReduceMax(ctx.cast(mask, dtype), [-1], keepdims=1)
    highest = ctx.op.ReduceMax(mask, [-1], keepdims=1)
    return ctx.cast(ctx.op.Not(ctx.op.Equal(highest, -math.inf)), dtype)


def _full_mask(ctx: Context, mask: ir.Value, query: ir.Value, key: ir.Value) -> ir.Value:
    """The kernel broadcasts the axes of batch and heads only."""
    if ctx.same_size(mask, -2, query, -2) and ctx.same_size(mask, -1, key, -2):
        return mask
    lead = [1] * (ctx.rank(mask) - 2)
    return ctx.expand(mask, [*lead, ctx.size(query, -2), ctx.size(key, -2)])


def _mask_fits(ctx: Context, query: ir.Value, mask: Mask) -> bool:
    """A boolean mask of 2 to 4 axes that does not widen the batch or the heads."""
    if mask is None:
        return True
    if mask.dtype != BOOL or mask.shape is None or not 2 <= len(mask.shape) <= 4:
        return False
    return all(mask.shape[axis] == 1 or ctx.same_size(mask, axis, query, axis) for axis in range(-len(mask.shape), -2))


# -- heads ------------------------------------------------------------------------------------------------


def _operator_fits(ctx: Context, query: ir.Value, key: ir.Value, value: ir.Value) -> bool:
    """Four axes, one batch, key and value of equally many heads that divide the query's, nothing surely empty."""
    if query.dtype not in _KERNEL_TYPES or any(ctx.rank(one) != 4 for one in (query, key, value)):
        return False
    if any(size == 0 for one in (query, key, value) for size in ctx.sizes(one)):
        return False
    batch = ctx.same_size(query, 0, key, 0) and ctx.same_size(query, 0, value, 0)
    return batch and ctx.same_size(key, 1, value, 1) and _heads_divide(ctx, query, key)


def _heads_divide(ctx: Context, query: ir.Value, key: ir.Value) -> bool:
    if ctx.same_size(query, 1, key, 1):
        return True
    heads, kept = ctx.size(query, 1), ctx.size(key, 1)
    return isinstance(heads, int) and isinstance(kept, int) and heads % kept == 0


def _repeat_heads(ctx: Context, x: ir.Value, query: ir.Value) -> ir.Value:
    """Each key or value head serves a run of neighbouring query heads: ``(…, H_kv, S, E)`` to ``(…, H, S, E)``."""
    if ctx.same_size(x, -3, query, -3):
        return x
    heads, kept = (ctx.fixed_size(one, -3, "enable_gqa") for one in (query, x))
    sizes = ctx.sizes(x)
    wide = ctx.expand(ctx.unsqueeze(x, -3), [*[1] * (len(sizes) - 2), heads // kept, 1, 1])
    return ctx.reshape(wide, [*sizes[:-3], heads, *sizes[-2:]])
