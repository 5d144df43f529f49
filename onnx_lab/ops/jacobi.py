"""Jacobi's rotations on all pairs of columns at once, in double precision: what eigen- and singular values are made of.

A round turns disjoint pairs of columns, those of a tournament (Brent and Luk, 1985): after one round less than
there are columns every pair has met once. Sizes may be dynamic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_lab.lower.context import Context

INT64, BOOL, DOUBLE = ir.DataType.INT64, ir.DataType.BOOL, ir.DataType.DOUBLE
SWEEPS = 30  # convergence is quadratic; half of them are enough even for hard matrices of 100 columns
SMALL = 2.0**-52


@dataclass
class Tournament:
    """Number of columns (made even by one column of zeros) and the columns' numbers."""

    columns: ir.Value  # 0-D
    numbers: ir.Value  # (m,)

    @classmethod
    def of(cls, ctx: Context, columns: ir.Value) -> Tournament:
        numbers = ctx.op.Range(0, columns, 1)
        numbers.shape = ir.Shape([None])
        return cls(columns, numbers)

    def pairs(self, ctx: Context, turn: ir.Value) -> tuple[ir.Value, ir.Value]:
        """(m/2, m) each: the first and the second column of every pair of a round, as rows of the identity."""
        op = ctx.op
        others = op.Sub(self.columns, 1)
        start = op.Mod(turn, others)
        steps = op.Range(1, op.Div(self.columns, 2), 1)
        first = op.Concat(ctx.as_vector(start), op.Mod(op.Add(steps, start), others), axis=0)
        second = op.Concat(ctx.as_vector(others), op.Mod(op.Sub(start, steps), others), axis=0)
        return self._rows(ctx, first), self._rows(ctx, second)

    def _rows(self, ctx: Context, places: ir.Value) -> ir.Value:
        places.shape = ir.Shape([None])
        return ctx.cast(ctx.op.Equal(ctx.unsqueeze(places, 1), self.numbers), DOUBLE)


def tangent(ctx: Context, difference: ir.Value, product: ir.Value) -> ir.Value:
    """The smaller angle's tangent that brings ``product`` to 0 (Golub and Van Loan, 8.4)."""
    op = ctx.op
    still = op.Equal(product, 0.0)
    ratio = op.Div(difference, op.Mul(op.Where(still, ctx.constant(1.0, DOUBLE), product), 2.0))
    sign = op.Where(op.Less(ratio, 0.0), ctx.constant(-1.0, DOUBLE), ctx.constant(1.0, DOUBLE))
    made = op.Div(sign, op.Add(op.Abs(ratio), op.Sqrt(op.Add(op.Mul(ratio, ratio), 1.0))))
    return op.Where(still, ctx.constant(0.0, DOUBLE), made)


def rotation(ctx: Context, t: ir.Value, first: ir.Value, second: ir.Value, like: ir.Value) -> ir.Value:
    """The orthogonal matrix of all rotations of a round: (*, m, m)."""
    op = ctx.op
    cosine = op.Reciprocal(op.Sqrt(op.Add(op.Mul(t, t), 1.0)))
    sine, less = op.Mul(t, cosine), op.Sub(cosine, 1.0)
    ahead, across = ctx.swap(first, 0, 1), ctx.swap(second, 0, 1)

    def scaled(factor: ir.Value, rows: ir.Value) -> ir.Value:
        return op.Mul(op.Unsqueeze(factor, [-1]), rows)

    upper = op.MatMul(ahead, op.Add(scaled(less, first), scaled(sine, second)))
    lower = op.MatMul(across, op.Sub(scaled(less, second), scaled(sine, first)))
    return op.Add(op.Add(upper, lower), like)


def iterate(
    ctx: Context,
    tournament: Tournament,
    states: list[ir.Value],
    step: Callable[[ir.Value, list[ir.Value]], tuple[list[ir.Value], ir.Value]],
) -> list[ir.Value]:
    """Rounds until a whole sweep has found nothing to turn: ``step`` gives new states and what it found."""
    op = ctx.op
    turn = ir.Value(name="turn", type=ir.TensorType(INT64), shape=ir.Shape([]))
    going = ir.Value(name="going", type=ir.TensorType(BOOL), shape=ir.Shape([]))
    worst = ir.Value(name="worst", type=ir.TensorType(DOUBLE), shape=ir.Shape([]))
    inside = [
        ir.Value(name=f"state_{i}", type=ir.TensorType(DOUBLE), shape=ir.Shape([None] * ctx.rank(one)))
        for i, one in enumerate(states)
    ]
    others = op.Max(op.Sub(tournament.columns, 1), ctx.constant(np.asarray(1)))

    def once() -> list[ir.Value]:
        made, found = step(turn, inside)
        before = op.Where(op.Equal(op.Mod(turn, others), 0), ctx.constant(0.0, DOUBLE), worst)
        most = op.Max(before, found)
        last = op.Equal(op.Mod(op.Add(turn, 1), others), 0)
        done = op.And(last, op.LessOrEqual(most, SMALL))
        return [op.Not(done), most, *made]

    body = ctx.loop_body([turn, going, worst, *inside], once, "rotations")
    rounds = op.Mul(op.Sub(tournament.columns, 1), SWEEPS)
    results = op.Loop(op.Max(rounds, ctx.constant(np.asarray(0))), None, ctx.constant(0.0, DOUBLE), *states, body=body,
                      outputs=1 + len(states))  # fmt: skip
    for result, state in zip(results[1:], states, strict=True):
        result.type, result.shape = ir.TensorType(DOUBLE), ir.Shape([None] * ctx.rank(state))
    return list(results[1:])


def largest(ctx: Context, x: ir.Value) -> ir.Value:
    """The greatest element, 0 of none."""
    flat = ctx.op.Concat(ctx.constant([0.0], DOUBLE), ctx.flatten(x), axis=0)
    return ctx.op.ReduceMax(flat, [0], keepdims=0)
