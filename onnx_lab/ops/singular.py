"""Singular values by one-sided Jacobi rotations (Hestenes, 1958), and what is made of them, in double precision.

Columns are turned until all are orthogonal: their lengths are the singular values. Vectors are unique but for
their sign; each right vector's element of greatest size is positive here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_lab.lower.context import Context
from onnx_lab.lower.registry import lowering
from onnx_lab.ops.eigen import SIGNS, identity, made_even, symmetric
from onnx_lab.ops.jacobi import Tournament, iterate, largest, rotation, tangent

DOUBLE, INT64 = ir.DataType.DOUBLE, ir.DataType.INT64
Number = float | ir.Value | None


def _turned(ctx: Context, tall: ir.Value) -> tuple[ir.Value, ir.Value]:
    """(*, m, n) with m ≥ n: orthogonal columns longest first, and the (*, n, n) rotation that made them."""
    op = ctx.op
    even, count = made_even(ctx, tall, [-1])
    tournament = Tournament.of(ctx, count)
    unit = identity(ctx, tournament, even)

    def step(turn: ir.Value, states: list[ir.Value]) -> tuple[list[ir.Value], ir.Value]:
        matrix, vectors = states
        first, second = tournament.pairs(ctx, turn)
        a, b = (op.MatMul(matrix, ctx.swap(rows, 0, 1)) for rows in (first, second))
        own_a, own_b, mixed = (op.ReduceSum(op.Mul(*pair), [-2], keepdims=0) for pair in ((a, a), (b, b), (a, b)))
        bound = op.Mul(op.Sqrt(own_a), op.Sqrt(own_b))
        slant = op.Div(op.Abs(mixed), op.Where(op.Equal(bound, 0.0), ctx.constant(1.0, DOUBLE), bound))
        turned = rotation(ctx, tangent(ctx, op.Sub(own_b, own_a), mixed), first, second, unit)
        return [op.MatMul(matrix, turned), op.MatMul(vectors, turned)], op.Mul(largest(ctx, slant), 0.0625)

    matrix, vectors = iterate(ctx, tournament, [even, unit], step)
    size = ctx.vector(ctx.size(tall, -1))
    lengths = op.ReduceL2(op.Slice(matrix, [0], size, [-1]), [-2], keepdims=0)
    _, order = op.TopK(lengths, size, axis=-1, largest=1, sorted=1, outputs=2)
    kept = op.Slice(matrix, [0], size, [-1]), op.Slice(vectors, [0, 0], op.Concat(size, size, axis=0), [-2, -1])
    picked = [op.GatherElements(one, op.Expand(op.Unsqueeze(order, [-2]), op.Shape(one)), axis=-1) for one in kept]
    rank = ctx.rank(tall)
    place = op.ArgMax(op.Abs(picked[1]), axis=-2, keepdims=1)
    sign = op.Sign(op.GatherElements(picked[1], place, axis=-2))
    for one in picked:
        one.shape = ir.Shape([None] * rank)
    return op.Mul(picked[0], sign), op.Mul(picked[1], sign)


def _is_wide(ctx: Context, x: ir.Value) -> bool:
    rows, columns = ctx.size(x, -2), ctx.size(x, -1)
    if isinstance(rows, int) and isinstance(columns, int):
        return columns > rows
    if not ctx.same_size(x, -2, x, -1):
        ctx.unsupported("A", "a matrix of which one side is dynamic", "keep rows and columns static")
    return False


def decomposed(ctx: Context, x: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """U·S (*, m, k), S (*, k) and V (*, n, k) with k = min(m, n), in double precision."""
    op, wide = ctx.op, ctx.cast(x, DOUBLE)
    flipped = _is_wide(ctx, x)
    scaled, turned = _turned(ctx, ctx.swap(wide, -2, -1) if flipped else wide)
    values = op.ReduceL2(scaled, [-2], keepdims=0)
    values.shape = ir.Shape([None] * (ctx.rank(x) - 1))
    if not flipped:
        return scaled, values, turned
    length = op.Unsqueeze(values, [-2])
    left = op.Mul(turned, length)
    return left, values, op.Div(scaled, op.Where(op.Equal(length, 0.0), ctx.constant(1.0, DOUBLE), length))


def singular_values(ctx: Context, x: ir.Value, hermitian: bool = False) -> ir.Value:
    """(*, k) in descending order; of a symmetric matrix from its lower triangle."""
    if 0 in ctx.sizes(x):
        shortest = 0 if 0 in ctx.sizes(x)[-2:] else min(ctx.fixed(ctx.sizes(x)[-2:], "A"))
        return ctx.full([*ctx.sizes(x)[:-2], shortest], 0, DOUBLE)
    if hermitian:
        x = symmetric(ctx, x, "L")
    return decomposed(ctx, x)[1]


@lowering("aten::linalg_svdvals")
def svdvals(ctx: Context, A: ir.Value, *, driver: str | None = None) -> ir.Value:
    return ctx.cast(singular_values(ctx, A), ctx.out_dtype)


def _completed(ctx: Context, columns: ir.Value, whole: bool) -> ir.Value:
    """Orthonormal columns in place of zero ones, and as many more as make the matrix square when ``whole``."""
    op = ctx.op
    q, r = ctx.lower("aten::linalg_qr", columns, "complete" if whole else "reduced")
    rank = ctx.rank(columns)
    shortest = op.Shape(columns, start=rank - 1)
    diagonal = op.ReduceSum(_main_diagonal(ctx, r, shortest), [-2], keepdims=1)
    sign = op.Where(op.Less(diagonal, 0.0), ctx.constant(-1.0, DOUBLE), ctx.constant(1.0, DOUBLE))
    if whole:
        missing = op.Sub(op.Shape(q, start=rank - 1), shortest)
        ends = op.Concat(ctx.constant([0] * rank), ctx.constant([0] * (rank - 1)), missing, axis=0)
        sign = op.Pad(sign, ends, ctx.constant(1.0, DOUBLE))
    return op.Mul(q, sign)


def _main_diagonal(ctx: Context, r: ir.Value, size: ir.Value) -> ir.Value:
    """The first n rows and columns, off the diagonal zero."""
    op = ctx.op
    square = op.Slice(r, [0, 0], op.Concat(size, size, axis=0), [-2, -1])
    numbers = op.Range(0, op.Squeeze(size, [0]), 1)
    numbers.shape = ir.Shape([None])
    return op.Mul(square, ctx.cast(op.Equal(ctx.unsqueeze(numbers, 1), numbers), DOUBLE))


def _svd(ctx: Context, x: ir.Value, full: bool) -> tuple[ir.Value, ir.Value, ir.Value]:
    """U, S and V (not transposed), in double precision."""
    op = ctx.op
    ctx.note(SIGNS)
    rows, columns = ctx.sizes(x)[-2:]
    if 0 in ctx.sizes(x):
        sides = ctx.fixed([rows, columns], "A")
        lead, short = ctx.sizes(x)[:-2], min(sides)
        unit = [np.eye(side, side if full else short) for side in sides]
        return (
            ctx.expand(ctx.constant(unit[0], DOUBLE), [*lead, *unit[0].shape]),
            ctx.full([*lead, short], 0, DOUBLE),
            ctx.expand(ctx.constant(unit[1], DOUBLE), [*lead, *unit[1].shape]),
        )
    scaled, values, right = decomposed(ctx, x)
    length = op.Unsqueeze(values, [-2])
    safe = op.Where(op.Equal(length, 0.0), ctx.constant(1.0, DOUBLE), length)
    left = op.Div(scaled, safe)
    left.shape = right.shape = ir.Shape([None] * ctx.rank(x))
    return _completed(ctx, left, full), values, _completed(ctx, right, full)


def _typed(ctx: Context, *values: ir.Value) -> tuple[ir.Value, ...]:
    return tuple(ctx.cast(one, ctx.out_dtype) for one in values)


@lowering("aten::linalg_svd")
def linalg_svd(
    ctx: Context, A: ir.Value, full_matrices: bool = True, *, driver: str | None = None
) -> tuple[ir.Value, ...]:
    left, values, right = _svd(ctx, A, full_matrices)
    return _typed(ctx, left, values, ctx.swap(right, -2, -1))


@lowering("aten::_linalg_svd")
def svd_kernel(
    ctx: Context, A: ir.Value, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None
) -> tuple[ir.Value, ...]:
    if compute_uv:
        return linalg_svd(ctx, A, full_matrices)
    nothing = ctx.full([0], 0, ctx.out_dtype)
    return nothing, ctx.cast(singular_values(ctx, A), ctx.out_dtype), nothing


@lowering("aten::svd")
def svd(ctx: Context, x: ir.Value, some: bool = True, compute_uv: bool = True) -> tuple[ir.Value, ...]:
    """The older form: V itself; without vectors zeros in their place."""
    if compute_uv:
        return _typed(ctx, *_svd(ctx, x, not some))
    rows, columns = ctx.sizes(x)[-2:]
    lead = ctx.sizes(x)[:-2]
    zeros = [ctx.full([*lead, side, side], 0, ctx.out_dtype) for side in (rows, columns)]
    return zeros[0], ctx.cast(singular_values(ctx, x), ctx.out_dtype), zeros[1]


# -- rank, inverse, condition ------------------------------------------------------------------------------


def _cutoff(ctx: Context, x: ir.Value, values: ir.Value, atol: Number, rtol: Number) -> ir.Value:
    """max(atol, rtol · σ₁) per matrix, with torch's default rtol = max(m, n) · ε where neither says otherwise."""
    op = ctx.op
    top = op.ReduceMax(
        op.Concat(values, op.Mul(op.ReduceSum(values, [-1], keepdims=1), 0.0), axis=-1), [-1], keepdims=1
    )
    eps = float(np.finfo((x.dtype or ir.DataType.FLOAT).numpy()).eps)
    default = op.Mul(ctx.cast(_longest(ctx, x), DOUBLE), eps)
    if rtol is None:
        relative = default
        if atol is not None:  # an absolute limit above 0 replaces the relative one
            given = _limit(ctx, atol)
            relative = op.Where(op.Greater(given, 0.0), ctx.constant(0.0, DOUBLE), default)
    else:
        relative = _limit(ctx, rtol)
    absolute = ctx.constant(0.0, DOUBLE) if atol is None else _limit(ctx, atol)
    return op.Max(absolute, op.Mul(relative, top))


def _limit(ctx: Context, limit: Number) -> ir.Value:
    """A limit, or one a matrix, so that it broadcasts along the singular values."""
    value = ctx.value(limit, DOUBLE) if limit is not None else ctx.constant(0.0, DOUBLE)
    return ctx.unsqueeze(value, ctx.rank(value)) if ctx.rank(value) else value


def _longest(ctx: Context, x: ir.Value) -> ir.Value:
    rows, columns = (ctx.value(ctx.size(x, dim)) for dim in (-2, -1))
    return ctx.op.Max(rows, columns)


def _rank(ctx: Context, x: ir.Value, atol: Number, rtol: Number, hermitian: bool) -> ir.Value:
    values = singular_values(ctx, x, hermitian)
    above = ctx.op.Greater(values, _cutoff(ctx, x, values, atol, rtol))
    return ctx.op.ReduceSum(ctx.cast(above, INT64), [-1], keepdims=0)


@lowering("aten::linalg_matrix_rank")
def matrix_rank(ctx: Context, x: ir.Value, tol: float, hermitian: bool = False) -> ir.Value:
    return _rank(ctx, x, tol, 0.0, hermitian)


@lowering("aten::linalg_matrix_rank.tol_tensor")
def matrix_rank_tolerance(ctx: Context, input: ir.Value, tol: ir.Value, hermitian: bool = False) -> ir.Value:
    return _rank(ctx, input, tol, 0.0, hermitian)


@lowering("aten::linalg_matrix_rank.atol_rtol_float")
def matrix_rank_numbers(
    ctx: Context, x: ir.Value, *, atol: Number = None, rtol: Number = None, hermitian: bool = False
) -> ir.Value:
    return _rank(ctx, x, atol, rtol, hermitian)


@lowering("aten::linalg_matrix_rank.atol_rtol_tensor")
def matrix_rank_limits(
    ctx: Context, input: ir.Value, *, atol: Number = None, rtol: Number = None, hermitian: bool = False
) -> ir.Value:
    return _rank(ctx, input, atol, rtol, hermitian)


def _pseudo_inverse(ctx: Context, x: ir.Value, atol: Number, rtol: Number, hermitian: bool) -> ir.Value:
    """Σ v σ⁻² (u σ)ᵀ over the singular values above the limit."""
    op = ctx.op
    if 0 in ctx.sizes(x):
        return ctx.full([*ctx.sizes(x)[:-2], *ctx.sizes(x)[:-3:-1]], 0, ctx.out_dtype)
    matrix = symmetric(ctx, x, "L") if hermitian else x
    scaled, values, right = decomposed(ctx, matrix)
    kept = op.Greater(values, _cutoff(ctx, x, values, atol, rtol))
    safe = op.Where(kept, values, ctx.constant(1.0, DOUBLE))
    weight = op.Where(kept, op.Reciprocal(op.Mul(safe, safe)), ctx.constant(0.0, DOUBLE))
    left = ctx.swap(_ranked(scaled, ctx.rank(x)), -2, -1)
    return ctx.cast(op.MatMul(op.Mul(right, op.Unsqueeze(weight, [-2])), left), ctx.out_dtype)


def _ranked(x: ir.Value, rank: int) -> ir.Value:
    x.shape = ir.Shape([None] * rank)
    return x


@lowering("aten::linalg_pinv.atol_rtol_tensor", "aten::linalg_pinv.atol_rtol_float")
def pinv(ctx: Context, x: ir.Value, *, atol: Number = None, rtol: Number = None, hermitian: bool = False) -> ir.Value:
    return _pseudo_inverse(ctx, x, atol, rtol, hermitian)


@lowering("aten::linalg_pinv", "aten::linalg_pinv.rcond_tensor")
def pinv_rcond(ctx: Context, x: ir.Value, rcond: Number, hermitian: bool = False) -> ir.Value:
    return _pseudo_inverse(ctx, x, 0.0, rcond, hermitian)


@lowering("aten::pinverse")
def pinverse(ctx: Context, x: ir.Value, rcond: float = 1e-15) -> ir.Value:
    return _pseudo_inverse(ctx, x, 0.0, rcond, False)


@lowering("aten::linalg_cond")
def cond(ctx: Context, x: ir.Value, p: Any = None) -> ir.Value:
    """σ₁ / σₖ, or its inverse for p = −2; other norms from the matrix and its inverse."""
    if p in (None, 2, -2):
        values = singular_values(ctx, x)
        ends = [ctx.op.Gather(values, ctx.constant(place), axis=-1) for place in (0, -1)]
        return ctx.cast(ctx.op.Div(*(ends if p != -2 else ends[::-1])), ctx.out_dtype)
    return _cond_by_norms(ctx, x, p)


@lowering("aten::linalg_cond.p_str")
def cond_named(ctx: Context, x: ir.Value, p: str) -> ir.Value:
    return _cond_by_norms(ctx, x, p)


def _cond_by_norms(ctx: Context, x: ir.Value, p: Any) -> ir.Value:
    inverse = ctx.lower("aten::linalg_inv_ex", x)[0]
    return ctx.op.Mul(_norm(ctx, x, p), _norm(ctx, inverse, p))


# -- norms of matrices -------------------------------------------------------------------------------------


def _norm(ctx: Context, x: ir.Value, order: Any) -> ir.Value:
    """Of the last two axes, which are dropped."""
    op = ctx.op
    if order in ("nuc", 2, -2):
        values = singular_values(ctx, x)
        kind = {"nuc": "ReduceSum", 2: "ReduceMax", -2: "ReduceMin"}[order]
        return ctx.cast(getattr(op, kind)(values, [-1], keepdims=0), x.dtype)
    if order == "fro":
        return op.ReduceL2(x, [-2, -1], keepdims=0)
    if order not in (1, -1, float("inf"), float("-inf")):
        ctx.unsupported("ord", order, "use one of fro, nuc, 1, -1, 2, -2, inf, -inf")
    summed, kept = (-2, -1) if abs(order) == 1 else (-1, -1)
    sums = op.ReduceSum(op.Abs(x), [summed], keepdims=0)
    return getattr(op, "ReduceMax" if order > 0 else "ReduceMin")(sums, [kept], keepdims=0)


def _matrix_norm(ctx: Context, x: ir.Value, order: Any, dim: Sequence[int], keepdim: bool) -> ir.Value:
    rank, (first, second) = ctx.rank(x), ctx.axis_list(x, list(dim))
    rest = [axis for axis in range(rank) if axis not in (first, second)]
    value = ctx.cast(x, ctx.out_dtype)
    made = _norm(ctx, ctx.transpose(value, [*rest, first, second]), order)
    return ctx.unsqueeze(made, sorted((first, second))) if keepdim else made


@lowering("aten::linalg_matrix_norm")
def matrix_norm(
    ctx: Context, x: ir.Value, ord: Any, dim: Sequence[int] = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> ir.Value:
    return _matrix_norm(ctx, x, ord, dim, keepdim)


@lowering("aten::linalg_matrix_norm.str_ord")
def matrix_norm_named(
    ctx: Context,
    x: ir.Value,
    ord: str = "fro",
    dim: Sequence[int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> ir.Value:
    return _matrix_norm(ctx, x, ord, dim, keepdim)


@lowering("aten::nuclear_norm")
def nuclear_norm(ctx: Context, x: ir.Value, keepdim: bool = False) -> ir.Value:
    return _matrix_norm(ctx, x, "nuc", (-2, -1), keepdim)


@lowering("aten::nuclear_norm.dim")
def nuclear_norm_dim(ctx: Context, x: ir.Value, dim: Sequence[int], keepdim: bool = False) -> ir.Value:
    return _matrix_norm(ctx, x, "nuc", dim, keepdim)
