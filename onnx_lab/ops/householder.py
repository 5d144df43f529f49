"""Householder reflections as LAPACK stores them: a column below the diagonal and a factor each."""

from __future__ import annotations

import onnx_ir as ir

from onnx_lab.lower.context import Context
from onnx_lab.lower.registry import lowering
from onnx_lab.ops.factorization import loop, numbers, size, swapped


def _unit(ctx: Context, like: ir.Value, columns: ir.Value) -> ir.Value:
    """(*, m, columns) with ones on the diagonal."""
    op, rank = ctx.op, ctx.rank(like)
    rows = numbers(ctx, size(ctx, like, -2))
    one = ctx.cast(op.Equal(ctx.unsqueeze(rows, 1), numbers(ctx, columns)), like.dtype)
    shape = op.Concat(ctx.shape(like, 0, rank - 1), ctx.as_vector(columns), axis=0)
    made = op.Expand(one, shape)
    made.shape = ir.Shape([None] * rank)
    return made


def _reflector(ctx: Context, packed: ir.Value, rows: ir.Value, turn: ir.Value) -> ir.Value:
    """(*, m, 1): zeros, a one on the diagonal, and what is stored below it."""
    op = ctx.op
    below = op.Where(op.Greater(rows, turn), op.Gather(packed, turn, axis=-1), 0.0)
    return op.Unsqueeze(op.Add(below, ctx.cast(op.Equal(rows, turn), packed.dtype)), [-1])


def product(ctx: Context, packed: ir.Value, tau: ir.Value, start: ir.Value) -> ir.Value:
    """H₁ H₂ … H_k · start, the last one first."""
    op = ctx.op
    rows = numbers(ctx, size(ctx, packed, -2))
    count = size(ctx, tau, -1)
    rank = ctx.rank(packed)

    def step(turn: ir.Value, states: list[ir.Value]) -> list[ir.Value]:
        place = op.Sub(op.Sub(count, 1), turn)
        v = _reflector(ctx, packed, rows, place)
        v.shape = ir.Shape([None] * rank)
        factor = op.Unsqueeze(op.Gather(tau, place, axis=-1), [-1])
        factor = op.Unsqueeze(factor, [-1])
        return [op.Sub(states[0], op.Mul(factor, op.MatMul(v, op.MatMul(swapped(ctx, v), states[0]))))]

    return loop(ctx, count, [start], step)[0]


@lowering("aten::linalg_householder_product")
def householder_product(ctx: Context, input: ir.Value, tau: ir.Value) -> ir.Value:
    """The first n columns of the product of all reflections."""
    return product(ctx, input, tau, _unit(ctx, input, size(ctx, input, -1)))


@lowering("aten::ormqr")
def ormqr(
    ctx: Context, x: ir.Value, input2: ir.Value, input3: ir.Value, left: bool = True, transpose: bool = False
) -> ir.Value:
    """Q·C, C·Q, and the same with Qᵀ."""
    q = product(ctx, x, input2, _unit(ctx, x, size(ctx, x, -2)))
    q = swapped(ctx, q) if transpose else q
    return ctx.op.MatMul(q, input3) if left else ctx.op.MatMul(input3, q)


@lowering("aten::geqrf")
def geqrf(ctx: Context, x: ir.Value) -> tuple[ir.Value, ...]:
    """R above, the reflections below, and their factors; a column that is zero below stays as it is."""
    op, rank = ctx.op, ctx.rank(x)
    if 0 in ctx.sizes(x):
        shortest = min(one for one in ctx.sizes(x)[-2:] if isinstance(one, int))
        return x, ctx.full([*ctx.sizes(x)[:-2], shortest], 0, x.dtype or ir.DataType.FLOAT)
    rows, columns = numbers(ctx, size(ctx, x, -2)), numbers(ctx, size(ctx, x, -1))

    def step(turn: ir.Value, states: list[ir.Value]) -> list[ir.Value]:
        now = states[0]
        column = op.Gather(now, turn, axis=-1)
        tail = op.ReduceSumSquare(op.Where(op.Greater(rows, turn), column, 0.0), [-1], keepdims=1)
        head = op.Unsqueeze(op.Gather(column, turn, axis=-1), [-1])
        norm = op.Sqrt(op.Add(op.Mul(head, head), tail))
        flat = op.Equal(tail, 0.0)
        beta = op.Where(flat, head, op.Where(op.Less(head, 0.0), norm, op.Neg(norm)))
        factor = op.Where(flat, 0.0, op.Div(op.Sub(beta, head), op.Where(flat, 1.0, beta)))
        scale = op.Where(flat, 1.0, op.Sub(head, beta))
        stored = op.Where(op.Greater(rows, turn), op.Div(column, scale), 0.0)
        v = op.Unsqueeze(op.Add(stored, ctx.cast(op.Equal(rows, turn), x.dtype)), [-1])
        v.shape = ir.Shape([None] * rank)
        reflected = op.Sub(now, op.Mul(op.Unsqueeze(factor, [-1]), op.MatMul(v, op.MatMul(swapped(ctx, v), now))))
        kept = op.Where(op.Greater(rows, turn), stored, op.Where(op.Equal(rows, turn), beta, column))
        here = op.Where(op.Greater(columns, turn), reflected, now)
        return [op.Where(op.Equal(columns, turn), op.Unsqueeze(kept, [-1]), here), op.Squeeze(factor, [-1])]

    turns = op.Min(size(ctx, x, -2), size(ctx, x, -1))
    packed, factors = loop(ctx, turns, [x], step, rows=1)
    return packed, op.Transpose(factors, perm=[*range(1, rank - 1), 0])
