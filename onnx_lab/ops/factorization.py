"""Factorizations of matrices and what is solved with them, as loops over columns.

ONNX has no such operators (but for Det). Each loop does one step of the textbook method on all matrices of
a batch at once; sizes may be dynamic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnx_lab.lower.context import Context
from onnx_lab.lower.registry import lowering

INT32, INT64, BOOL = ir.DataType.INT32, ir.DataType.INT64, ir.DataType.BOOL
Step = Callable[[ir.Value, list[ir.Value]], list[ir.Value]]


def loop(ctx: Context, count: ir.Value, states: Sequence[ir.Value], step: Step, rows: int = 0) -> list[ir.Value]:
    """``step(turn, states)`` for turns 0 to count − 1; returns states, then ``rows`` stacked results of all turns."""
    turn = ir.Value(name="turn", type=ir.TensorType(INT64), shape=ir.Shape([]))
    going = ir.Value(name="going", type=ir.TensorType(BOOL), shape=ir.Shape([]))
    inside = [
        ir.Value(name=f"state_{index}", type=state.type, shape=ir.Shape([None] * ctx.rank(state)))
        for index, state in enumerate(states)
    ]

    def once() -> list[ir.Value]:
        return [ctx.op.Identity(going), *step(turn, inside)]

    body = ctx.loop_body([turn, going, *inside], once, "column_loop")
    made = ctx.op.Loop(count, None, *states, body=body, outputs=len(states) + rows)
    results = list(made) if isinstance(made, tuple) else [made]
    for result, inner in zip(results, body.outputs[1:], strict=True):
        result.type = inner.type
    for result, state in zip(results, states, strict=False):
        result.shape = ir.Shape([None] * ctx.rank(state))
    return results


def numbers(ctx: Context, count: ir.Value) -> ir.Value:
    """0 to count − 1."""
    made: ir.Value = ctx.op.Range(ctx.constant(0), count, ctx.constant(1))
    made.shape = ir.Shape([None])
    return made


def size(ctx: Context, x: ir.Value, dim: int) -> ir.Value:
    return ctx.value(ctx.size(x, dim))


def swapped(ctx: Context, x: ir.Value) -> ir.Value:
    """Rows and columns exchanged."""
    return ctx.swap(x, -2, -1)


def diagonal(ctx: Context, x: ir.Value) -> ir.Value:
    """(*, n, n) to (*, n)."""
    rank = ctx.rank(x)
    places = ctx.op.Expand(numbers(ctx, size(ctx, x, -1)), ctx.shape(x, 0, rank - 1))
    made = ctx.op.GatherElements(x, ctx.op.Unsqueeze(places, [-1]), axis=-1)
    return ctx.squeeze(made, -1)


def identity(ctx: Context, x: ir.Value) -> ir.Value:
    """The identity in the type and size of the square matrices x."""
    rows = numbers(ctx, size(ctx, x, -1))
    one = ctx.cast(ctx.op.Equal(ctx.unsqueeze(rows, 1), rows), x.dtype)
    made = ctx.op.Expand(one, ctx.shape(x))
    made.shape = x.shape
    return made


def no_errors(ctx: Context, x: ir.Value) -> ir.Value:
    """The ``info`` of a batch: all went well (a singular matrix gives infinities instead of an error)."""
    return ctx.full(ctx.sizes(x)[:-2], 0, INT32)


# -- LU ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Factors:
    """A permuted matrix as L·U in one: ones on the diagonal of L are left out.

    Attributes:
        packed: (*, m, n).
        order: (*, m): the row of the matrix that stands in each place.
        pivots: (*, min(m, n)), 1-based as LAPACK counts: the row exchanged with each.
        sign: (*): 1 or −1 for an even or odd number of exchanges, where that was counted.
    """

    packed: ir.Value
    order: ir.Value
    pivots: ir.Value
    sign: ir.Value | None


def lu(ctx: Context, matrix: ir.Value, pivot: bool = True) -> Factors:
    """Gaussian elimination; the largest element below becomes the pivot."""
    op, rank = ctx.op, ctx.rank(matrix)
    rows = numbers(ctx, size(ctx, matrix, -2))
    columns = numbers(ctx, size(ctx, matrix, -1))
    batch = ctx.sizes(matrix)[:-2]
    order = op.Expand(rows, ctx.shape(matrix, 0, rank - 1))
    order.shape = ir.Shape([None] * (rank - 1))
    sign = ctx.full([*batch, 1], 1, matrix.dtype or ir.DataType.FLOAT)

    def step(turn: ir.Value, states: list[ir.Value]) -> list[ir.Value]:
        now, placed, signed = states
        below = op.GreaterOrEqual(rows, turn)
        if pivot:
            column = op.Gather(now, turn, axis=-1)
            chosen = op.ArgMax(op.Where(below, op.Abs(column), -1.0), axis=-1, keepdims=1)
        else:
            chosen = op.Expand(turn, ctx.vector([*batch, 1]))
        taken = op.Where(op.Equal(rows, turn), chosen, op.Where(op.Equal(rows, chosen), turn, rows))
        now = _take_rows(ctx, now, taken)
        placed = op.GatherElements(placed, taken, axis=-1)
        signed = op.Where(op.Equal(chosen, turn), signed, op.Neg(signed))
        top = op.Unsqueeze(op.Gather(now, turn, axis=-2), [-2])
        column = op.Gather(now, turn, axis=-1)
        head = op.Gather(top, turn, axis=-1)  # (*, 1)
        factor = op.Where(op.Greater(rows, turn), op.Div(column, head), 0.0)
        # A column of zeros needs no elimination: 0 / 0 would be no number.
        factor = op.Where(op.Equal(head, 0.0), 0.0, factor)
        factor = op.Unsqueeze(factor, [-1])
        # Columns before this one hold L already; this one takes the factors.
        reduced = op.Sub(now, op.Mul(factor, op.Where(op.Greater(columns, turn), top, 0.0)))
        kept = op.And(op.Unsqueeze(op.Greater(rows, turn), [1]), op.Equal(columns, turn))
        return [op.Where(kept, factor, reduced), placed, signed, op.Squeeze(chosen, [-1])]

    turns = op.Min(size(ctx, matrix, -2), size(ctx, matrix, -1))
    packed, placed, signed, chosen = loop(ctx, turns, [matrix, order, sign], step, rows=1)
    pivots = op.Cast(op.Add(op.Transpose(chosen, perm=[*range(1, rank - 1), 0]), 1), to=INT32)
    return Factors(packed, placed, pivots, ctx.squeeze(signed, -1))


def _take_rows(ctx: Context, x: ir.Value, order: ir.Value) -> ir.Value:
    """Rows of each matrix in the given order (*, m)."""
    shape = ctx.op.Shape(x)
    return ctx.op.GatherElements(x, ctx.op.Expand(ctx.op.Unsqueeze(order, [-1]), shape), axis=-2)


def lu_solved(ctx: Context, found: Factors, right: ir.Value) -> ir.Value:
    """X with A·X = B, for B of shape (*, n, k)."""
    placed = _take_rows(ctx, right, found.order)
    placed.shape = ir.Shape([None] * ctx.rank(right))
    halfway = solve_triangle(ctx, found.packed, placed, upper=False, unit=True)
    return solve_triangle(ctx, found.packed, halfway, upper=True, unit=False)


def solve_triangle(ctx: Context, triangle: ir.Value, right: ir.Value, *, upper: bool, unit: bool) -> ir.Value:
    """X with T·X = B by substitution; what lies beyond the triangle is not read."""
    op = ctx.op
    count = size(ctx, triangle, -1)
    rows = op.Unsqueeze(numbers(ctx, count), [1])
    rows.shape = ir.Shape([None, 1])

    def step(turn: ir.Value, states: list[ir.Value]) -> list[ir.Value]:
        now = states[0]
        place = op.Sub(op.Sub(count, 1), turn) if upper else turn
        column = op.Unsqueeze(op.Gather(triangle, place, axis=-1), [-1])  # (*, n, 1)
        solved = op.Unsqueeze(op.Gather(now, place, axis=-2), [-2])  # (*, 1, k)
        if not unit:
            solved = op.Div(solved, op.Unsqueeze(op.Gather(column, place, axis=-2), [-2]))
        remaining = op.Less(rows, place) if upper else op.Greater(rows, place)
        reduced = op.Sub(now, op.Mul(op.Where(remaining, column, 0.0), solved))
        return [op.Where(op.Equal(rows, place), solved, reduced)]

    return loop(ctx, count, [right], step)[0]


def _as_columns(ctx: Context, a: ir.Value, b: ir.Value) -> tuple[ir.Value, ir.Value, bool]:
    """The right side as matrices of the common batch, and whether it was a batch of vectors.

    Torch takes B for vectors when it has one axis, or one axis less than A and A's shape without the last.
    """
    rank, right = ctx.rank(a), ctx.rank(b)
    vectors = right == 1 or (rank - 1 == right and all(ctx.same_size(a, axis, b, axis) for axis in range(right)))
    b = ctx.unsqueeze(b, -1) if vectors else b
    return (*_common_batch(ctx, a, b), vectors)


def _common_batch(ctx: Context, a: ir.Value, b: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Both expanded to one batch shape."""
    ranks = ctx.rank(a), ctx.rank(b)
    same = ranks[0] == ranks[1] and all(ctx.same_size(a, axis, b, axis) for axis in range(ranks[0] - 2))
    if same:
        return a, b
    batch = ctx.shape(
        ctx.op.Add(*(ctx.op.ReduceMax(one, [-2, -1], keepdims=0) for one in (a, b))), 0, max(ranks) - 2
    ) if max(ranks) > 2 else ctx.constant([], INT64)  # fmt: skip
    wide = []
    for one, rank in zip((a, b), ranks, strict=True):
        made = ctx.op.Expand(one, ctx.op.Concat(batch, ctx.shape(one, rank - 2), axis=0))
        made.shape = ir.Shape([None] * max(ranks))
        wide.append(made)
    return wide[0], wide[1]


# -- what torch calls -------------------------------------------------------------------------------------


@lowering("aten::linalg_inv_ex")
def linalg_inv_ex(ctx: Context, A: ir.Value, *, check_errors: bool = False) -> tuple[ir.Value, ...]:
    inverse = A if ctx.size(A, -1) == 0 else lu_solved(ctx, lu(ctx, A), identity(ctx, A))
    return inverse, no_errors(ctx, A)


@lowering("aten::_linalg_solve_ex")
def linalg_solve_ex(
    ctx: Context, A: ir.Value, B: ir.Value, *, left: bool = True, check_errors: bool = False
) -> tuple[ir.Value | None, ...]:
    a, b, vectors = _as_columns(ctx, A, B)
    found = lu(ctx, a if left else swapped(ctx, a))
    made = lu_solved(ctx, found, b if left else swapped(ctx, b))
    made = made if left else swapped(ctx, made)
    if ctx.used(1) or ctx.used(2):
        ctx.unsupported("its result", "LU", "call torch.linalg.lu_factor for it")
    return ctx.squeeze(made, -1) if vectors else made, None, None, no_errors(ctx, A)


@lowering("aten::_linalg_slogdet")
def linalg_slogdet(ctx: Context, A: ir.Value) -> tuple[ir.Value, ...]:
    found = lu(ctx, A)
    values = diagonal(ctx, found.packed)
    sign = ctx.op.Mul(found.sign, ctx.op.ReduceProd(ctx.op.Sign(values), [-1], keepdims=0))
    logarithm = ctx.op.ReduceSum(ctx.op.Log(ctx.op.Abs(values)), [-1], keepdims=0)
    return sign, logarithm, found.packed, found.pivots


@lowering("aten::_linalg_det")
def linalg_det(ctx: Context, A: ir.Value) -> tuple[ir.Value, ...]:
    found = lu(ctx, A)
    product = ctx.op.ReduceProd(diagonal(ctx, found.packed), [-1], keepdims=0)
    return ctx.op.Mul(found.sign, product), found.packed, found.pivots


@lowering("aten::linalg_lu_factor_ex")
def linalg_lu_factor_ex(
    ctx: Context, A: ir.Value, *, pivot: bool = True, check_errors: bool = False
) -> tuple[ir.Value, ...]:
    found = lu(ctx, A, pivot)
    return found.packed, found.pivots, no_errors(ctx, A)


@lowering("aten::linalg_lu")
def linalg_lu(ctx: Context, A: ir.Value, *, pivot: bool = True) -> tuple[ir.Value, ...]:
    """P·L·U = A."""
    found = lu(ctx, A, pivot)
    return _permutation(ctx, A, found.order), *_triangles(ctx, found.packed)


def _permutation(ctx: Context, like: ir.Value, order: ir.Value) -> ir.Value:
    """Row i of the matrix stands in place order[i]: P has its ones there."""
    rows = numbers(ctx, size(ctx, like, -2))
    return ctx.cast(ctx.op.Equal(ctx.unsqueeze(rows, 1), ctx.op.Unsqueeze(order, [-2])), like.dtype)


def _triangles(ctx: Context, packed: ir.Value) -> tuple[ir.Value, ir.Value]:
    """L with ones on its diagonal, and U."""
    op, rank = ctx.op, ctx.rank(packed)
    rows, columns = size(ctx, packed, -2), size(ctx, packed, -1)
    shortest = ctx.as_vector(op.Min(rows, columns))
    square = op.Cast(op.Equal(ctx.unsqueeze(numbers(ctx, rows), 1), numbers(ctx, columns)), to=packed.dtype)
    lower = op.Add(op.Trilu(packed, ctx.constant(-1), upper=0), square)
    upper = op.Trilu(packed, upper=1)
    return op.Slice(lower, [0], shortest, [rank - 1]), op.Slice(upper, [0], shortest, [rank - 2])


@lowering("aten::linalg_solve_triangular")
def linalg_solve_triangular(
    ctx: Context, x: ir.Value, B: ir.Value, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> ir.Value:
    a, b = _common_batch(ctx, x, B)
    if left:
        return solve_triangle(ctx, a, b, upper=upper, unit=unitriangular)
    made = solve_triangle(ctx, swapped(ctx, a), swapped(ctx, b), upper=not upper, unit=unitriangular)
    return swapped(ctx, made)


@lowering("aten::triangular_solve")
def triangular_solve(
    ctx: Context,
    x: ir.Value,
    A: ir.Value,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> tuple[ir.Value, ...]:
    a, b = _common_batch(ctx, A, x)
    triangle = swapped(ctx, a) if transpose else a
    return solve_triangle(ctx, triangle, b, upper=upper != transpose, unit=unitriangular), a


@lowering("aten::linalg_lu_solve")
def linalg_lu_solve(
    ctx: Context, LU: ir.Value, pivots: ir.Value, B: ir.Value, *, left: bool = True, adjoint: bool = False
) -> ir.Value:
    """With the factors at hand; from the right it is the transposed system on the transposed side."""
    if 0 in (*ctx.sizes(LU), *ctx.sizes(B)):
        return ctx.full([ctx.dim(dim) for dim in ctx.out_shape], 0, B.dtype or ir.DataType.FLOAT)
    factors, b = _common_batch(ctx, LU, B if left else swapped(ctx, B))
    found = Factors(factors, order_of(ctx, factors, pivots), pivots, None)
    made = lu_solved(ctx, found, b) if left != adjoint else _lu_solved_adjoint(ctx, found, b)
    return made if left else swapped(ctx, made)


def order_of(ctx: Context, factors: ir.Value, pivots: ir.Value) -> ir.Value:
    """The rows' places after the exchanges that the pivots tell, one after the other: (*, m)."""
    rank = ctx.rank(factors)
    batch = ctx.shape(factors, 0, rank - 2)
    count = ctx.as_vector(size(ctx, pivots, -1))
    swaps = ctx.op.Expand(ctx.cast(pivots, INT64), ctx.op.Concat(batch, count, axis=0))
    rows = numbers(ctx, size(ctx, factors, -2))
    order = ctx.op.Expand(rows, ctx.shape(factors, 0, rank - 1))
    order.shape = ir.Shape([None] * (rank - 1))

    def step(turn: ir.Value, states: list[ir.Value]) -> list[ir.Value]:
        chosen = ctx.op.Sub(ctx.op.Unsqueeze(ctx.op.Gather(swaps, turn, axis=-1), [-1]), 1)
        held = ctx.op.Where(ctx.op.Equal(rows, chosen), turn, rows)
        taken = ctx.op.Where(ctx.op.Equal(rows, turn), chosen, held)
        return [ctx.op.GatherElements(states[0], taken, axis=-1)]

    return loop(ctx, size(ctx, pivots, -1), [order], step)[0]


def _lu_solved_adjoint(ctx: Context, found: Factors, right: ir.Value) -> ir.Value:
    """X with Aᵀ·X = B: first Uᵀ, then Lᵀ, then the rows back to where they were."""
    turned = swapped(ctx, found.packed)
    halfway = solve_triangle(ctx, turned, right, upper=False, unit=False)
    solved = solve_triangle(ctx, turned, halfway, upper=True, unit=True)
    count = ctx.vector(ctx.size(found.packed, -1))
    _, back = ctx.op.TopK(found.order, count, axis=-1, largest=0, sorted=1, outputs=2)
    made = _take_rows(ctx, solved, back)
    made.shape = ir.Shape([None] * ctx.rank(right))
    return made


@lowering("aten::lu_unpack")
def lu_unpack(
    ctx: Context, LU_data: ir.Value, LU_pivots: ir.Value, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[ir.Value, ...]:
    """P, L and U; what is not asked for is empty."""
    nothing = ctx.full([0], 0, LU_data.dtype or ir.DataType.FLOAT)
    places, lower, upper = nothing, nothing, nothing
    if unpack_pivots:
        places = _permutation(ctx, LU_data, order_of(ctx, LU_data, LU_pivots))
    if unpack_data:
        lower, upper = _triangles(ctx, LU_data)
    return places, lower, upper


# -- Cholesky ---------------------------------------------------------------------------------------------


def lower_cholesky(ctx: Context, matrix: ir.Value) -> ir.Value:
    """L with L·Lᵀ = A, from A's lower triangle: one column a turn, its product taken off the rest."""
    op, rank = ctx.op, ctx.rank(matrix)
    rows = numbers(ctx, size(ctx, matrix, -1))

    def step(turn: ir.Value, states: list[ir.Value]) -> list[ir.Value]:
        now = states[0]
        column = op.Gather(now, turn, axis=-1)
        head = op.Sqrt(op.Unsqueeze(op.Gather(column, turn, axis=-1), [-1]))
        column = op.Where(op.GreaterOrEqual(rows, turn), op.Div(column, head), 0.0)
        product = op.Mul(op.Unsqueeze(column, [-1]), op.Unsqueeze(column, [-2]))
        return [op.Sub(now, product), column]

    columns = loop(ctx, size(ctx, matrix, -1), [matrix], step, rows=1)[1]
    made: ir.Value = op.Transpose(columns, perm=[*range(1, rank), 0])
    made.shape = ir.Shape([None] * rank)
    return made


def _cholesky(ctx: Context, x: ir.Value, upper: bool) -> ir.Value:
    if ctx.size(x, -1) == 0:
        return x
    made = lower_cholesky(ctx, swapped(ctx, x) if upper else x)
    return swapped(ctx, made) if upper else made


@lowering("aten::linalg_cholesky_ex")
def linalg_cholesky_ex(
    ctx: Context, x: ir.Value, *, upper: bool = False, check_errors: bool = False
) -> tuple[ir.Value, ...]:
    return _cholesky(ctx, x, upper), no_errors(ctx, x)


@lowering("aten::cholesky")
def cholesky(ctx: Context, x: ir.Value, upper: bool = False) -> ir.Value:
    return _cholesky(ctx, x, upper)


@lowering("aten::cholesky_solve")
def cholesky_solve(ctx: Context, x: ir.Value, input2: ir.Value, upper: bool = False) -> ir.Value:
    """X with L·Lᵀ·X = B."""
    factor, b = _common_batch(ctx, input2, x)
    lower = swapped(ctx, factor) if upper else factor
    halfway = solve_triangle(ctx, lower, b, upper=False, unit=False)
    return solve_triangle(ctx, swapped(ctx, lower), halfway, upper=True, unit=False)


@lowering("aten::cholesky_inverse")
def cholesky_inverse(ctx: Context, x: ir.Value, upper: bool = False) -> ir.Value:
    return cholesky_solve(ctx, identity(ctx, x), x, upper)


# -- QR and the exponential -------------------------------------------------------------------------------


@lowering("aten::linalg_qr")
def linalg_qr(ctx: Context, A: ir.Value, mode: str = "reduced") -> tuple[ir.Value, ...]:
    """Householder reflections, with the signs that LAPACK chooses."""
    op, rank = ctx.op, ctx.rank(A)
    m, n = size(ctx, A, -2), size(ctx, A, -1)
    rows = numbers(ctx, m)
    one = ctx.cast(op.Equal(ctx.unsqueeze(rows, 1), rows), A.dtype)
    start = op.Expand(one, ctx.vector([*ctx.sizes(A)[:-2], m, m]))
    start.shape = ir.Shape([None] * rank)

    def step(turn: ir.Value, states: list[ir.Value]) -> list[ir.Value]:
        r, q = states
        column = op.Where(op.GreaterOrEqual(rows, turn), op.Gather(r, turn, axis=-1), 0.0)
        tail = op.ReduceSumSquare(op.Where(op.Greater(rows, turn), column, 0.0), [-1], keepdims=1)
        head = op.Unsqueeze(op.Gather(column, turn, axis=-1), [-1])
        norm = op.Sqrt(op.Add(op.Mul(head, head), tail))
        wanted = op.Where(op.Less(head, 0.0), norm, op.Neg(norm))
        v = op.Unsqueeze(op.Where(op.Equal(rows, turn), op.Sub(column, wanted), column), [-1])
        length = op.ReduceSumSquare(v, [-2], keepdims=1)
        # Nothing to reflect when all below is zero already.
        flat = op.Unsqueeze(op.Equal(tail, 0.0), [-1])
        factor = op.Where(flat, 0.0, op.Div(2.0, op.Where(flat, 1.0, length)))
        across = op.Transpose(v, perm=[*range(rank - 2), rank - 1, rank - 2])
        r = op.Sub(r, op.Mul(factor, op.MatMul(v, op.MatMul(across, r))))
        q = op.Sub(q, op.Mul(factor, op.MatMul(op.MatMul(q, v), across)))
        return [r, q]

    r, q = loop(ctx, op.Min(m, n), [A, start], step)
    r = op.Trilu(r, upper=1)
    if mode != "complete":
        shortest = ctx.as_vector(op.Min(m, n))
        q, r = op.Slice(q, [0], shortest, [rank - 1]), op.Slice(r, [0], shortest, [rank - 2])
    if mode == "r":
        return ctx.full([0], 0, A.dtype or ir.DataType.FLOAT), r
    return q, r


_TAYLOR_TERMS = 18  # with a norm of at most 1 the rest is below 1e-16


@lowering("aten::linalg_matrix_exp")
def linalg_matrix_exp(ctx: Context, x: ir.Value) -> ir.Value:
    """A Taylor series of A / 2ˢ, squared s times; each matrix has its own s. Half precision is rounded once."""
    op, dtype = ctx.op, x.dtype
    x = ctx.cast(x, ir.DataType.FLOAT if dtype in (ir.DataType.FLOAT16, ir.DataType.BFLOAT16) else None)
    one = identity(ctx, x)
    norm = op.ReduceMax(op.ReduceSum(op.Abs(x), [-2], keepdims=1), [-1], keepdims=1)
    doublings = op.Ceil(
        op.Div(op.Log(op.Max(norm, ctx.constant(1.0, x.dtype))), ctx.constant(0.6931471805599453, x.dtype))
    )
    small = op.Div(x, op.Pow(ctx.constant(2.0, x.dtype), doublings))
    made = one
    for term in range(_TAYLOR_TERMS, 0, -1):  # Horner
        made = op.Add(one, op.Div(op.MatMul(small, made), float(term)))
    made.shape = ir.Shape([None] * ctx.rank(x))

    def step(turn: ir.Value, states: list[ir.Value]) -> list[ir.Value]:
        wanted = op.Less(op.Cast(turn, to=x.dtype), doublings)
        return [op.Where(wanted, op.MatMul(states[0], states[0]), states[0])]

    most = op.Cast(op.ReduceMax(doublings, keepdims=0), to=INT64)
    return ctx.cast(loop(ctx, most, [made], step)[0], dtype)
