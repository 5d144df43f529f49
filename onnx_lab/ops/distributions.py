"""Random numbers that need a loop: Poisson, binomial, gamma and Dirichlet. Exact in distribution."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from onnx_lab.lower.context import Context
from onnx_lab.lower.registry import lowering
from onnx_lab.ops.random import Form, events, normal, positive, waits

INT64, BOOL = ir.DataType.INT64, ir.DataType.BOOL
FLOAT, DOUBLE = ir.DataType.FLOAT, ir.DataType.DOUBLE
# A round of the gamma method fails with a probability below 0.05; what never ends is NaN.
_MOST_ROUNDS = 100
Step = Callable[[ir.Value, list[ir.Value]], list[ir.Value]]


def _some(ctx: Context, mask: ir.Value) -> ir.Value:
    """Whether any is true; of nothing none is."""
    return ctx.op.Greater(ctx.op.ReduceSum(ctx.cast(mask, INT64), None, keepdims=0), 0)


def _repeat(
    ctx: Context, most: ir.Value | None, first: ir.Value | None, start: Sequence[ir.Value], step: Step
) -> list[ir.Value]:
    """``step(turn, states)`` gives whether to go on, then the states."""
    turn = ir.Value(name="turn", type=ir.TensorType(INT64), shape=ir.Shape([]))
    going = ir.Value(name="going", type=ir.TensorType(BOOL), shape=ir.Shape([]))
    states = [
        ir.Value(name=f"state_{index}", type=one.type, shape=ir.Shape([None] * ctx.rank(one)))
        for index, one in enumerate(start)
    ]
    body = ctx.loop_body([turn, going, *states], lambda: step(turn, states), "draws")
    made = list(ctx.op.Loop(most, first, *start, body=body, outputs=len(start)))
    for result, one in zip(made, start, strict=True):
        result.type, result.shape = one.type, one.shape
    return made


def _filled(ctx: Context, form: Form, fill: float, dtype: ir.DataType) -> ir.Value:
    made: ir.Value = ctx.op.ConstantOfShape(form.vector, value=ir.Tensor(np.full(1, fill, dtype.numpy()), dtype=dtype))
    made.shape = ir.Shape(form.dims)
    return made


@lowering("aten::poisson")
def poisson(ctx: Context, x: ir.Value, generator: None = None) -> ir.Value:
    """How many events of rate 1 happen before the time x: waits are added until all times are up."""
    op, form, end = ctx.op, Form.like(ctx, x), ctx.cast(x, DOUBLE)

    def event(turn: ir.Value, states: list[ir.Value]) -> list[ir.Value]:
        time, count = states
        time = op.Add(time, waits(ctx, form, DOUBLE))
        early = op.LessOrEqual(time, end)
        return [_some(ctx, early), time, op.Add(count, ctx.cast(early, DOUBLE))]

    zeros = _filled(ctx, form, 0.0, DOUBLE)
    return ctx.cast(_repeat(ctx, None, _some(ctx, op.Greater(end, 0.0)), [zeros, zeros], event)[1], ctx.out_dtype)


@lowering("aten::binomial")
def binomial(ctx: Context, count: ir.Value, prob: ir.Value, generator: None = None) -> ir.Value:
    """How many of ``count`` trials succeed: one trial of all elements a turn."""
    op = ctx.op
    trials, chance = op.Add(count, op.Mul(prob, 0.0)), op.Add(prob, op.Mul(count, 0.0))
    form, whole = Form.like(ctx, trials), ctx.cast(trials, INT64)
    most = op.ReduceMax(op.Concat(ctx.flatten(whole), ctx.constant([0]), axis=0), [0], keepdims=0)

    def trial(turn: ir.Value, states: list[ir.Value]) -> list[ir.Value]:
        success = op.And(op.Less(turn, whole), events(ctx, form, _wide(ctx, chance)))
        return [op.Less(turn, most), op.Add(states[0], ctx.cast(success, INT64))]

    return ctx.cast(_repeat(ctx, most, None, [_filled(ctx, form, 0, INT64)], trial)[0], ctx.out_dtype)


def _wide(ctx: Context, x: ir.Value) -> ir.Value:
    return x if x.dtype == DOUBLE else ctx.cast(x, FLOAT)


def _gamma(ctx: Context, alpha: ir.Value) -> ir.Value:
    """Gamma of rate 1 by rejection (Marsaglia, Tsang 2000), as FLOAT or DOUBLE.

    With d = α - 1/3, c = 1 / √(9 d), z normal and v = (1 + c z)³: d v is taken when ln u < z²/2 + d (1 - v + ln v).
    For α < 1 the number for α + 1 times u^(1/α).
    """
    op, form, shape = ctx.op, Form.like(ctx, alpha), _wide(ctx, alpha)
    dtype = shape.dtype or FLOAT
    small = op.Less(shape, 1.0)
    d = op.Sub(op.Where(small, op.Add(shape, 1.0), shape), 1 / 3)
    c = op.Div(ctx.constant(1.0, dtype), op.Sqrt(op.Mul(d, 9.0)))

    def round_(turn: ir.Value, states: list[ir.Value]) -> list[ir.Value]:
        value, done = states
        z = normal(ctx, form, dtype)
        root = op.Add(op.Mul(c, z), 1.0)
        v = op.Mul(op.Mul(root, root), root)
        inside = op.Greater(v, 0.0)
        log_v = op.Log(op.Where(inside, v, ctx.constant(1.0, dtype)))
        bound = op.Add(op.Mul(op.Mul(z, z), 0.5), op.Mul(d, op.Add(op.Sub(1.0, v), log_v)))
        taken = op.And(inside, op.Less(op.Log(positive(ctx, form, dtype)), bound))
        value = op.Where(op.And(taken, op.Not(done)), op.Mul(d, v), value)
        done = op.Or(done, taken)
        return [_some(ctx, op.Not(done)), value, done]

    start = [op.Add(_filled(ctx, form, np.nan, dtype), d), _filled(ctx, form, False, BOOL)]
    value = _repeat(ctx, ctx.constant(np.asarray(_MOST_ROUNDS)), None, start, round_)[0]
    less = op.Pow(positive(ctx, form, dtype), op.Div(ctx.constant(1.0, dtype), shape))
    return op.Mul(value, op.Where(small, less, ctx.constant(1.0, dtype)))


@lowering("aten::_standard_gamma")
def standard_gamma(ctx: Context, x: ir.Value, generator: None = None) -> ir.Value:
    """Never 0: the smallest number stands for what is less."""
    assert x.dtype is not None
    made = _gamma(ctx, x)
    dtype = FLOAT if x.dtype == ir.DataType.BFLOAT16 else x.dtype  # these two have one range
    tiny = float(np.finfo(dtype.numpy()).tiny)
    return ctx.cast(ctx.op.Max(made, ctx.constant(tiny, made.dtype)), ctx.out_dtype)


@lowering("aten::_sample_dirichlet")
def sample_dirichlet(ctx: Context, x: ir.Value, generator: None = None) -> ir.Value:
    """Gamma numbers over their sum."""
    drawn = _gamma(ctx, x)
    return ctx.cast(ctx.op.Div(drawn, ctx.op.ReduceSum(drawn, [-1], keepdims=1)), ctx.out_dtype)
