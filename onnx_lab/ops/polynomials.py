"""Orthogonal polynomials by their three-term recurrences (DLMF 18.9), one turn of a loop a degree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir as ir

from onnx_lab.lower.context import Context
from onnx_lab.lower.registry import lowering

INT64, BOOL, DOUBLE = ir.DataType.INT64, ir.DataType.BOOL, ir.DataType.DOUBLE
Operand = Any  # ir.Value or a Python number

# name -> p₁ as (slope, constant), then p_{k+1} = (a(k) x + b(k)) p_k − c(k) p_{k−1}; p₀ is 1, k counts from 1.
_TWICE = (lambda op, k: 2.0, lambda op, k: 0.0, lambda op, k: 1.0)
_SHIFTED = (lambda op, k: 4.0, lambda op, k: -2.0, lambda op, k: 1.0)
RECURRENCES: dict[str, tuple[tuple[float, float], tuple[Callable[..., Any], ...]]] = {
    "chebyshev_polynomial_t": ((1.0, 0.0), _TWICE),
    "chebyshev_polynomial_u": ((2.0, 0.0), _TWICE),
    "chebyshev_polynomial_v": ((2.0, -1.0), _TWICE),
    "chebyshev_polynomial_w": ((2.0, 1.0), _TWICE),
    "shifted_chebyshev_polynomial_t": ((2.0, -1.0), _SHIFTED),
    "shifted_chebyshev_polynomial_u": ((4.0, -2.0), _SHIFTED),
    "shifted_chebyshev_polynomial_v": ((4.0, -3.0), _SHIFTED),
    "shifted_chebyshev_polynomial_w": ((4.0, -1.0), _SHIFTED),
    "hermite_polynomial_h": ((2.0, 0.0), (lambda op, k: 2.0, lambda op, k: 0.0, lambda op, k: op.Mul(k, 2.0))),
    "hermite_polynomial_he": ((1.0, 0.0), (lambda op, k: 1.0, lambda op, k: 0.0, lambda op, k: k)),
    "laguerre_polynomial_l": (
        (-1.0, 1.0),
        (
            lambda op, k: op.Neg(op.Reciprocal(op.Add(k, 1.0))),
            lambda op, k: op.Div(op.Add(op.Mul(k, 2.0), 1.0), op.Add(k, 1.0)),
            lambda op, k: op.Div(k, op.Add(k, 1.0)),
        ),
    ),
    "legendre_polynomial_p": (
        (1.0, 0.0),
        (
            lambda op, k: op.Div(op.Add(op.Mul(k, 2.0), 1.0), op.Add(k, 1.0)),
            lambda op, k: 0.0,
            lambda op, k: op.Div(k, op.Add(k, 1.0)),
        ),
    ),
}


def _polynomial(first: tuple[float, float], rules: tuple[Callable[..., Any], ...]) -> Callable[..., ir.Value]:
    def polynomial(ctx: Context, x: Operand, n: Operand) -> ir.Value:
        """Degrees below 0 give 0; a fraction of a degree is cut off, as torch does."""
        op = ctx.op
        value, degree = ctx.value(x, DOUBLE), ctx.cast(ctx.value(n, DOUBLE), INT64)
        rank = max(ctx.rank(value), ctx.rank(degree))
        zero = op.Mul(op.Add(value, ctx.cast(degree, DOUBLE)), 0.0)
        one = op.Add(zero, 1.0)
        start = op.Add(op.Add(op.Mul(value, first[0]), first[1]), zero)
        result = op.Where(op.Equal(degree, 0), one, op.Where(op.Equal(degree, 1), start, zero))
        states = [
            ir.Value(name=name, type=ir.TensorType(DOUBLE), shape=ir.Shape([None] * rank))
            for name in ("before", "now", "result")
        ]
        turn = ir.Value(name="turn", type=ir.TensorType(INT64), shape=ir.Shape([]))
        going = ir.Value(name="going", type=ir.TensorType(BOOL), shape=ir.Shape([]))

        def once() -> list[ir.Value]:
            before, now, found = states
            k = ctx.cast(op.Add(turn, 1), DOUBLE)
            slope, constant, back = (rule(op, k) for rule in rules)
            following = op.Sub(op.Mul(op.Add(op.Mul(value, slope), constant), now), op.Mul(before, back))
            chosen = op.Where(op.Equal(degree, op.Add(turn, 2)), following, found)
            return [op.Identity(going), op.Identity(now), following, chosen]

        body = ctx.loop_body([turn, going, *states], once, "recurrence")
        most = op.ReduceMax(
            ctx.reshape(op.Concat(ctx.flatten(degree), ctx.constant([1]), axis=0), [-1]), [0], keepdims=0
        )
        _, _, made = op.Loop(op.Sub(most, 1), None, one, start, result, body=body, outputs=3)
        made.type, made.shape = ir.TensorType(DOUBLE), ir.Shape([None] * rank)
        return ctx.cast(made, ctx.out_dtype)

    return polynomial


for name, (first, rules) in RECURRENCES.items():
    forms = ("", ".x_scalar", ".n_scalar")
    lowering(*(f"aten::special_{name}{form}" for form in forms))(_polynomial(first, rules))
