"""Products of matrices and tensors: linear, matmul and its relatives, einsum."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnx_lab.lower.context import Context, Number
from onnx_lab.lower.registry import lowering

Factor = Number | ir.Value
_D = ir.DataType
# Element types of ONNX's MatMul; narrower integers wrap as torch's do when they are computed in INT32.
_PRODUCT_TYPES = frozenset({_D.FLOAT16, _D.BFLOAT16, _D.FLOAT, _D.DOUBLE, _D.INT32, _D.INT64, _D.UINT32, _D.UINT64})


def product(ctx: Context, a: ir.Value, b: ir.Value) -> ir.Value:
    """Matrix product in the operands' own element type.

    A vector on the right becomes a column: the runtime's optimizer takes ``Kᵀ·u`` for ``K·u`` otherwise.
    """
    if ctx.rank(b) == 1 and ctx.rank(a) > 1:
        return ctx.squeeze(product(ctx, a, ctx.unsqueeze(b, 1)), -1)
    dtype = a.dtype
    if dtype in _PRODUCT_TYPES:
        return ctx.op.MatMul(a, b)
    return ctx.cast(ctx.op.MatMul(ctx.cast(a, _D.INT32), ctx.cast(b, _D.INT32)), dtype)


def scaled(ctx: Context, x: ir.Value, factor: Factor) -> ir.Value:
    """``factor * x`` in the element type of ``x``."""
    if not isinstance(factor, ir.Value) and factor == 1:
        return x
    return ctx.op.Mul(x, ctx.value(factor, x.dtype))


def combined(ctx: Context, x: ir.Value, made: ir.Value, beta: Factor, alpha: Factor) -> ir.Value:
    """``beta * x + alpha * made``; with beta 0 torch ignores x, its NaNs included."""
    made = scaled(ctx, made, alpha)
    if not isinstance(beta, ir.Value) and beta == 0:
        return made
    return ctx.op.Add(scaled(ctx, x, beta), made)


# -- linear ---------------------------------------------------------------------------------------------


@lowering("aten::linear")
def linear(ctx: Context, input: ir.Value, weight: ir.Value, bias: ir.Value | None = None) -> ir.Value:
    """x·Wᵀ + b: Gemm on a matrix, else MatMul with the weight transposed (ONNX Runtime does that once, at load)."""
    matrix = ctx.rank(weight) == 2
    if matrix and ctx.rank(input) == 2 and input.dtype in (_D.FLOAT, _D.DOUBLE, _D.FLOAT16):
        return ctx.op.Gemm(input, weight, *([] if bias is None else [bias]), transB=1)
    made = product(ctx, input, ctx.transpose(weight, [1, 0]) if matrix else weight)
    return made if bias is None else ctx.op.Add(made, bias)


@lowering("aten::bilinear")
def bilinear(
    ctx: Context, input1: ir.Value, input2: ir.Value, weight: ir.Value, bias: ir.Value | None = None
) -> ir.Value:
    """y[..., o] = x1[..., i] W[o, i, j] x2[..., j] + b[o]."""
    rows = ctx.op.MatMul(ctx.unsqueeze(input1, [-3, -2]), weight)  # (*, O, 1, J)
    made = ctx.squeeze(ctx.op.MatMul(rows, ctx.unsqueeze(input2, [-3, -1])), [-2, -1])
    return made if bias is None else ctx.op.Add(made, bias)


# -- products -------------------------------------------------------------------------------------------


@lowering("aten::matmul", "aten::linalg_matmul")
def matmul(ctx: Context, x: ir.Value, other: ir.Value) -> ir.Value:
    return product(ctx, x, other)


@lowering("aten::mm", "aten::bmm")
def mm(ctx: Context, x: ir.Value, mat2: ir.Value) -> ir.Value:
    return product(ctx, x, mat2)


@lowering("aten::mm.dtype", "aten::bmm.dtype")
def mm_dtype(ctx: Context, x: ir.Value, mat2: ir.Value, out_dtype: ir.DataType) -> ir.Value:
    return product(ctx, ctx.cast(x, out_dtype), ctx.cast(mat2, out_dtype))


@lowering("aten::mv")
def mv(ctx: Context, x: ir.Value, vec: ir.Value) -> ir.Value:
    return product(ctx, x, vec)


@lowering("aten::dot")
def dot(ctx: Context, x: ir.Value, tensor: ir.Value) -> ir.Value:
    return product(ctx, x, tensor)


@lowering("aten::vdot")
def vdot(ctx: Context, x: ir.Value, other: ir.Value) -> ir.Value:
    return product(ctx, x, other)


@lowering("aten::chain_matmul")
def chain_matmul(ctx: Context, matrices: Sequence[ir.Value]) -> ir.Value:
    return _chain(ctx, matrices)


@lowering("aten::linalg_multi_dot")
def multi_dot(ctx: Context, tensors: Sequence[ir.Value]) -> ir.Value:
    """A chain whose ends may be vectors, as matmul takes them."""
    return _chain(ctx, tensors)


def _chain(ctx: Context, factors: Sequence[ir.Value]) -> ir.Value:
    made = factors[0]
    for factor in factors[1:]:
        made = product(ctx, made, factor)
    return made


@lowering("aten::addmm")
def addmm(
    ctx: Context, x: ir.Value, mat1: ir.Value, mat2: ir.Value, *, beta: Factor = 1, alpha: Factor = 1
) -> ir.Value:
    """One Gemm where its float attributes hold alpha and beta exactly."""
    if mat1.dtype in (_D.FLOAT, _D.FLOAT16) and not isinstance(beta, ir.Value) and not isinstance(alpha, ir.Value):
        bias = [x] if beta else []
        factors = {"alpha": float(alpha) if alpha != 1 else None, "beta": float(beta) if beta not in (0, 1) else None}
        return ctx.op.Gemm(mat1, mat2, *bias, **factors)
    return combined(ctx, x, product(ctx, mat1, mat2), beta, alpha)


@lowering("aten::baddbmm")
def baddbmm(
    ctx: Context, x: ir.Value, batch1: ir.Value, batch2: ir.Value, *, beta: Factor = 1, alpha: Factor = 1
) -> ir.Value:
    return combined(ctx, x, product(ctx, batch1, batch2), beta, alpha)


@lowering("aten::addbmm")
def addbmm(
    ctx: Context, x: ir.Value, batch1: ir.Value, batch2: ir.Value, *, beta: Factor = 1, alpha: Factor = 1
) -> ir.Value:
    """The products of all batches, summed; half precision is rounded after the sum only."""
    dtype, wide = x.dtype, _D.FLOAT if x.dtype in (_D.FLOAT16, _D.BFLOAT16) else None
    first, second = ctx.cast(batch1, wide), ctx.cast(batch2, wide)
    total = ctx.op.ReduceSum(product(ctx, first, second), [0], keepdims=0)
    return ctx.cast(combined(ctx, ctx.cast(x, wide), total, beta, alpha), dtype)


@lowering("aten::addmv")
def addmv(ctx: Context, x: ir.Value, mat: ir.Value, vec: ir.Value, *, beta: Factor = 1, alpha: Factor = 1) -> ir.Value:
    return combined(ctx, x, product(ctx, mat, vec), beta, alpha)


@lowering("aten::addr")
def addr(ctx: Context, x: ir.Value, vec1: ir.Value, vec2: ir.Value, *, beta: Factor = 1, alpha: Factor = 1) -> ir.Value:
    first, second = ctx.cast(vec1, ctx.out_dtype), ctx.cast(vec2, ctx.out_dtype)
    return combined(ctx, ctx.cast(x, ctx.out_dtype), outer(ctx, first, second), beta, alpha)


@lowering("aten::outer", "aten::ger")
def outer(ctx: Context, x: ir.Value, vec2: ir.Value) -> ir.Value:
    first, second = ctx.promote(x, vec2)
    return ctx.op.Mul(ctx.unsqueeze(first, 1), second)


@lowering("aten::kron")
def kron(ctx: Context, x: ir.Value, other: ir.Value) -> ir.Value:
    """Every element of x times all of ``other``, tiled: axes interleaved, then merged pairwise."""
    a, b = ctx.promote(x, other)
    rank = max(ctx.rank(a), ctx.rank(b))
    a, b = (ctx.unsqueeze(v, list(range(rank - ctx.rank(v)))) if ctx.rank(v) < rank else v for v in (a, b))
    if rank == 0:
        return ctx.op.Mul(a, b)
    wide = ctx.op.Mul(
        ctx.unsqueeze(a, [2 * axis + 1 for axis in range(rank)]), ctx.unsqueeze(b, [2 * axis for axis in range(rank)])
    )
    return ctx.reshape(wide, [ctx.dim(dim) for dim in ctx.out_shape])


@lowering("aten::linalg_vecdot")
def vecdot(ctx: Context, x: ir.Value, y: ir.Value, *, dim: int = -1) -> ir.Value:
    return ctx.op.ReduceSum(ctx.op.Mul(x, y), [dim], keepdims=0)


@lowering("aten::linalg_matrix_power", "aten::matrix_power")
def matrix_power(ctx: Context, x: ir.Value, n: int) -> ir.Value:
    """Repeated squaring; an inverse does not exist in ONNX."""
    if n < 1:
        ctx.unsupported("n", n)
    result: ir.Value | None = None
    square = x
    while n:
        if n & 1:
            result = square if result is None else product(ctx, result, square)
        n >>= 1
        if n:
            square = product(ctx, square, square)
    assert result is not None
    return result


@lowering("aten::linalg_det")
def linalg_det(ctx: Context, A: ir.Value) -> ir.Value:
    """One operator; ONNX Runtime has it in float only."""
    return ctx.op.Det(A) if A.dtype == _D.FLOAT else ctx.lower("aten::_linalg_det", A)[0]


@lowering("aten::det")
def det(ctx: Context, x: ir.Value) -> ir.Value:
    return linalg_det(ctx, x)


@lowering("aten::trace")
def trace(ctx: Context, x: ir.Value) -> ir.Value:
    """Sum of the diagonal; integers accumulate in int64."""
    shortest = ctx.op.Min(ctx.shape(x, 0, 1), ctx.shape(x, 1, 2))
    square = ctx.op.Slice(ctx.cast(x, ctx.out_dtype), [0, 0], ctx.op.Concat(shortest, shortest, axis=0))
    return ctx.op.ReduceSum(ctx.op.Einsum(square, equation="ii->i"), [0], keepdims=0)


@lowering("aten::linalg_cross")
def linalg_cross(ctx: Context, x: ir.Value, other: ir.Value, *, dim: int = -1) -> ir.Value:
    """(a₁b₂ − a₂b₁, …): each operand rotated by one and by two places."""
    axis = dim if dim < 0 else dim - ctx.rank(x)
    a, b = ctx.promote(x, other)

    def turned(value: ir.Value, order: list[int]) -> ir.Value:
        return ctx.op.Gather(value, ctx.constant(order), axis=axis)

    left = ctx.op.Mul(turned(a, [1, 2, 0]), turned(b, [2, 0, 1]))
    return ctx.op.Sub(left, ctx.op.Mul(turned(a, [2, 0, 1]), turned(b, [1, 2, 0])))


@lowering("aten::cross")
def cross(ctx: Context, x: ir.Value, other: ir.Value, dim: int | None = None) -> ir.Value:
    """Without a dim: the first axis of size 3."""
    if dim is None:
        dims = [axis for axis, size in enumerate(ctx.sizes(x)) if size == 3]
        dim = dims[0] if dims else ctx.unsupported("dim", None)
    return linalg_cross(ctx, x, other, dim=dim)


# -- einsum ---------------------------------------------------------------------------------------------


@lowering("aten::einsum")
def einsum(ctx: Context, equation: str, tensors: Sequence[ir.Value], *, path: Sequence[int] | None = None) -> ir.Value:
    """Σ over the letters that the result does not have."""
    terms, result = _explicit(equation, [ctx.rank(one) for one in tensors])
    return ctx.cast(contract(ctx, terms, result, ctx.promote(*tensors)), ctx.out_dtype)


@lowering("aten::tensordot")
def tensordot(
    ctx: Context, x: ir.Value, other: ir.Value, dims_self: Sequence[int], dims_other: Sequence[int]
) -> ir.Value:
    """Σ over pairs of axes; the remaining axes of x come first."""
    left = [ctx.axis(x, dim) for dim in dims_self]
    right = [ctx.axis(other, dim) for dim in dims_other]
    letters = iter(_LETTERS)
    first = [next(letters) for _ in range(ctx.rank(x))]
    second = [next(letters) for _ in range(ctx.rank(other))]
    for a, b in zip(left, right, strict=True):
        second[b] = first[a]
    summed = {first[a] for a in left}
    result = [letter for letter in (*first, *second) if letter not in summed]
    return contract(ctx, ["".join(first), "".join(second)], "".join(result), [x, other])


@lowering("aten::inner")
def inner(ctx: Context, x: ir.Value, other: ir.Value) -> ir.Value:
    """Σ over both last axes; a 0-D operand only scales."""
    if not ctx.rank(x) or not ctx.rank(other):
        return ctx.op.Mul(*ctx.promote(x, other))
    return tensordot(ctx, x, other, [-1], [-1])


_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _explicit(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """Operand and result letters with every ellipsis spelled out and the result always given."""
    compact = equation.replace(" ", "")
    left, arrow, result = compact.partition("->")
    terms = left.split(",")
    spare = [letter for letter in _LETTERS if letter not in compact]
    widths = [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True)]
    dots = spare[: max((w for term, w in zip(terms, widths, strict=True) if "..." in term), default=0)]
    if not arrow:
        named = left.replace("...", "").replace(",", "")
        result = "..." + "".join(sorted(letter for letter in set(named) if named.count(letter) == 1))
    filled = [
        term.replace("...", "".join(dots[len(dots) - width :])) if "..." in term else term
        for term, width in zip(terms, widths, strict=True)
    ]
    return filled, result.replace("...", "".join(dots))


def contract(ctx: Context, terms: list[str], result: str, operands: Sequence[ir.Value]) -> ir.Value:
    """The general product: MatMul for the everyday two-operand forms, else ONNX's Einsum."""
    made = _as_matmul(ctx, terms, result, operands) if len(operands) == 2 else None
    if made is not None:
        return made
    made = ctx.op.Einsum(*operands, equation=f"{','.join(terms)}->{result}")
    # ONNX Runtime gives a scalar result the shape (1,).
    return made if result else ctx.reshape(made, [])


def _as_matmul(ctx: Context, terms: list[str], result: str, operands: Sequence[ir.Value]) -> ir.Value | None:
    """Batch letters, one letter summed, at most one letter of each operand's own; else None."""
    first, second = terms
    if len(set(first)) < len(first) or len(set(second)) < len(second):
        return None
    shared = [letter for letter in first if letter in second]
    summed = [letter for letter in shared if letter not in result]
    batch = [letter for letter in shared if letter in result]
    own = [[letter for letter in term if letter not in shared] for term in terms]
    if len(summed) != 1 or any(len(letters) > 1 or not set(letters) <= set(result) for letters in own):
        return None
    if operands[0].dtype not in _PRODUCT_TYPES or not ctx.same_size(
        operands[0], first.index(summed[0]), operands[1], second.index(summed[0])
    ):
        return None
    left = ctx.transpose(operands[0], [first.index(one) for one in (*batch, *own[0], *summed)])
    right = ctx.transpose(operands[1], [second.index(one) for one in (*batch, *summed, *own[1])])
    if not own[0]:
        left = ctx.unsqueeze(left, -2)
    if not own[1]:
        right = ctx.unsqueeze(right, -1)
    made = ctx.op.MatMul(left, right)
    absent = [axis for axis, letters in ((-2, own[0]), (-1, own[1])) if not letters]
    made = ctx.squeeze(made, absent) if absent else made
    order = [*batch, *own[0], *own[1]]
    return ctx.transpose(made, [order.index(letter) for letter in result])
