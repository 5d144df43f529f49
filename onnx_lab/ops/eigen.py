"""Eigenvalues and vectors of symmetric matrices by Jacobi's method: to double precision, whatever the type.

Vectors are unique but for their sign: the element of greatest size is positive here.
"""

from __future__ import annotations

import onnx_ir as ir

from onnx_lab.lower.context import Context
from onnx_lab.lower.registry import lowering
from onnx_lab.ops.jacobi import Tournament, iterate, largest, rotation, tangent

DOUBLE, INT64 = ir.DataType.DOUBLE, ir.DataType.INT64


def symmetric(ctx: Context, x: ir.Value, uplo: str) -> ir.Value:
    """The matrix that one triangle stands for, in double precision."""
    op, wide = ctx.op, ctx.cast(x, DOUBLE)
    lower = uplo.upper() == "L"
    half = op.Trilu(wide, ctx.constant(0), upper=int(not lower))
    strict = op.Trilu(wide, ctx.constant(-1 if lower else 1), upper=int(not lower))
    made = op.Add(half, ctx.swap(strict, -2, -1))
    made.shape = x.shape
    return made


def made_even(ctx: Context, x: ir.Value, axes: list[int]) -> tuple[ir.Value, ir.Value]:
    """One row or column of zeros more on ``axes`` where their number (that of the last axis) is odd; and the number."""
    op, rank = ctx.op, ctx.rank(x)
    size = ctx.value(ctx.size(x, -1))
    odd = op.Mod(size, 2)
    zero = ctx.constant([0])
    ends = [ctx.as_vector(odd) if axis in axes else zero for axis in range(-rank, 0)]
    made = op.Pad(x, op.Concat(ctx.constant([0] * rank), *ends, axis=0), ctx.constant(0.0, DOUBLE))
    made.shape = ir.Shape([*list(x.shape or ())[: rank - 2], None, None])
    return made, op.Add(size, odd)


def identity(ctx: Context, tournament: Tournament, like: ir.Value) -> ir.Value:
    """(*, m, m) identities, one for each matrix of ``like``."""
    op = ctx.op
    one = ctx.cast(op.Equal(ctx.unsqueeze(tournament.numbers, 1), tournament.numbers), DOUBLE)
    square = op.Concat(ctx.shape(like, 0, ctx.rank(like) - 2), *[ctx.as_vector(tournament.columns)] * 2, axis=0)
    made = op.Expand(one, square)
    made.shape = ir.Shape([None] * ctx.rank(like))
    return made


def _eigen(ctx: Context, x: ir.Value, uplo: str) -> tuple[ir.Value, ir.Value]:
    """(*, n) values in ascending order and (*, n, n) vectors in columns."""
    op = ctx.op
    full = symmetric(ctx, x, uplo)
    even, count = made_even(ctx, full, [-2, -1])
    tournament = Tournament.of(ctx, count)
    unit = identity(ctx, tournament, even)
    scale = op.Max(largest(ctx, op.Abs(full)), 1e-300)

    def step(turn: ir.Value, states: list[ir.Value]) -> tuple[list[ir.Value], ir.Value]:
        matrix, vectors = states
        first, second = tournament.pairs(ctx, turn)
        a, b = op.MatMul(first, matrix), op.MatMul(second, matrix)
        own_a, own_b = (op.ReduceSum(op.Mul(*pair), [-1], keepdims=0) for pair in ((a, first), (b, second)))
        mixed = op.ReduceSum(op.Mul(a, second), [-1], keepdims=0)
        turned = rotation(ctx, tangent(ctx, op.Sub(own_b, own_a), mixed), first, second, unit)
        rotated = op.MatMul(ctx.swap(_ranked(turned, ctx.rank(even)), -2, -1), op.MatMul(matrix, turned))
        return [rotated, op.MatMul(vectors, turned)], op.Div(largest(ctx, op.Abs(mixed)), scale)

    matrix, vectors = iterate(ctx, tournament, [even, unit], step)
    size = ctx.vector(ctx.size(x, -1))
    diagonal = op.ReduceSum(op.Mul(matrix, unit), [-1], keepdims=0)
    values, order = op.TopK(op.Slice(diagonal, [0], size, [-1]), size, axis=-1, largest=0, sorted=1, outputs=2)
    kept = op.Slice(vectors, [0, 0], op.Concat(size, size, axis=0), [-2, -1])
    picked = op.GatherElements(kept, op.Expand(op.Unsqueeze(order, [-2]), op.Shape(kept)), axis=-1)
    picked.shape, values.shape = x.shape, ir.Shape([*(x.shape or ())][:-1])
    return values, _signed(ctx, picked)


def _ranked(x: ir.Value, rank: int) -> ir.Value:
    x.shape = ir.Shape([None] * rank)
    return x


def _signed(ctx: Context, vectors: ir.Value) -> ir.Value:
    """Columns turned so that their element of greatest size is positive."""
    op = ctx.op
    place = op.ArgMax(op.Abs(vectors), axis=-2, keepdims=1)
    sign = op.Sign(op.GatherElements(vectors, place, axis=-2))
    return op.Mul(vectors, op.Where(op.Equal(sign, 0.0), ctx.constant(1.0, DOUBLE), sign))


def values_and_vectors(ctx: Context, x: ir.Value, uplo: str, dtype: ir.DataType) -> tuple[ir.Value, ir.Value]:
    if 0 in ctx.sizes(x):
        return ctx.full(ctx.sizes(x)[:-1], 0, dtype), ctx.cast(x, dtype)
    values, vectors = _eigen(ctx, x, uplo)
    return ctx.cast(values, dtype), ctx.cast(vectors, dtype)


SIGNS = "eigenvectors and singular vectors are unique but for their sign, which may differ from eager's"


@lowering("aten::linalg_eigh")
def eigh(ctx: Context, x: ir.Value, UPLO: str = "L") -> tuple[ir.Value, ir.Value]:
    if ctx.used(1):
        ctx.note(SIGNS)
    return values_and_vectors(ctx, x, UPLO, ctx.out_dtype)


@lowering("aten::_linalg_eigh")
def eigh_kernel(ctx: Context, A: ir.Value, UPLO: str = "L", compute_v: bool = True) -> tuple[ir.Value, ir.Value]:
    values, vectors = values_and_vectors(ctx, A, UPLO, ctx.out_dtype)
    return values, vectors if compute_v else ctx.full([0], 0, ctx.out_dtype)


@lowering("aten::linalg_eigvalsh")
def eigvalsh(ctx: Context, x: ir.Value, UPLO: str = "L") -> ir.Value:
    return values_and_vectors(ctx, x, UPLO, ctx.out_dtype)[0]
