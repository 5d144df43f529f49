"""Connectionist temporal classification: the loss of all alignments of a text with a recording."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_lab.lower.context import Context
from onnx_lab.lower.registry import lowering

INT64, BOOL = ir.DataType.INT64, ir.DataType.BOOL
FLOAT, DOUBLE = ir.DataType.FLOAT, ir.DataType.DOUBLE
Lengths = ir.Value | Sequence[int]


def _number(ctx: Context, value: int) -> ir.Value:
    return ctx.constant(np.asarray(value))


def _places(ctx: Context, count: ir.Value) -> ir.Value:
    made: ir.Value = ctx.op.Range(_number(ctx, 0), count, _number(ctx, 1))
    made.shape = ir.Shape([None])
    return made


def _labels(ctx: Context, targets: ir.Value, lengths: ir.Value, blank: int) -> ir.Value:
    """Targets in rows (N, S); what is beyond a row's length is blank. ``lengths`` is (N, 1)."""
    op, targets = ctx.op, ctx.cast(targets, INT64)
    if ctx.rank(targets) == 2:
        places = _places(ctx, ctx.value(ctx.size(targets, 1), INT64))
        rows = targets
    else:
        # All in one row; one more lets an empty row be read.
        places = _places(ctx, op.ReduceMax(op.Concat(op.Reshape(lengths, [-1]), ctx.constant([0]), axis=0), keepdims=0))
        before = op.Sub(op.CumSum(lengths, _number(ctx, 0)), lengths)
        every = op.Concat(targets, ctx.constant([0]), axis=0)
        last = op.Sub(op.Size(every), 1)
        rows = op.Gather(every, op.Min(op.Add(before, places), last), axis=0)
    return op.Where(op.Less(places, lengths), rows, _number(ctx, blank))


def _with_blanks(ctx: Context, labels: ir.Value, blank: int) -> ir.Value:
    """(N, S) to (N, 2S + 1): a blank before each label and one at the end."""
    op = ctx.op
    blanks = op.Add(op.Mul(labels, 0), blank)
    pairs = op.Concat(op.Unsqueeze(blanks, [2]), op.Unsqueeze(labels, [2]), axis=2)
    sizes = op.Mul(op.Shape(labels), ctx.constant([1, 2]))
    made: ir.Value = op.Pad(op.Reshape(pairs, sizes, allowzero=1), ctx.constant([0, 0, 0, 1]), _number(ctx, blank))
    made.shape = ir.Shape([None, None])
    return made


def _moved(ctx: Context, x: ir.Value, steps: int, fill: Any) -> ir.Value:
    """The columns moved to the right."""
    padded = ctx.op.Pad(x, ctx.constant([0, steps, 0, -steps]), ctx.constant(fill, x.dtype))
    padded.shape = x.shape
    return padded


def _log_sum(ctx: Context, terms: Sequence[ir.Value]) -> ir.Value:
    """Log Σ exp; minus infinity is the logarithm of nothing."""
    op = ctx.op
    highest = op.Max(*terms)
    base = op.Where(op.IsInf(highest), ctx.constant(0.0, highest.dtype), highest)
    return op.Add(op.Log(op.Sum(*(op.Exp(op.Sub(term, base)) for term in terms))), base)


def _alignments(ctx: Context, log_probs: ir.Value, ends: ir.Value, extended: ir.Value) -> ir.Value:
    """Log probability of all alignments that end in each place of the extended text (Graves 2006, equations 6 to 8).

    α(s) ← (α(s) + α(s - 1) + α(s - 2)) · y(s), the last term where the labels of s and s - 2 differ. Before the
    first frame all is in place 0. A sample stays as it is when its frames are at an end. (N, 2S + 1).
    """
    op, dtype = ctx.op, log_probs.dtype or FLOAT
    nothing = ctx.constant(-np.inf, dtype)
    differs = op.Not(op.Equal(extended, _moved(ctx, extended, 2, -1)))
    first = op.Equal(_places(ctx, op.Squeeze(op.Shape(extended, start=1), [0])), 0)
    start = op.Expand(op.Where(first, ctx.constant(0.0, dtype), nothing), op.Shape(extended))
    start.shape = ir.Shape([None, None])
    state = ir.Value(name="alignments", type=ir.TensorType(dtype), shape=ir.Shape([None, None]))
    turn = ir.Value(name="frame", type=ir.TensorType(INT64), shape=ir.Shape([]))
    going = ir.Value(name="going", type=ir.TensorType(BOOL), shape=ir.Shape([]))
    # The first two places have none before them: -1 is no label, so they differ, and what moves in is nothing.

    def frame() -> list[ir.Value]:
        skipped = op.Where(differs, _moved(ctx, state, 2, -np.inf), nothing)
        reached = _log_sum(ctx, [state, _moved(ctx, state, 1, -np.inf), skipped])
        heard = op.GatherElements(op.Gather(log_probs, turn, axis=0), extended, axis=1)
        return [op.Identity(going), op.Where(op.Less(turn, ends), op.Add(reached, heard), state)]

    body = ctx.loop_body([turn, going, state], frame, "frames")
    made: tuple[ir.Value, ...] = ctx.op.Loop(ctx.value(ctx.size(log_probs, 0), INT64), None, start, body=body)
    made[0].type, made[0].shape = state.type, state.shape
    return made[0]


def _column(ctx: Context, lengths: Lengths) -> ir.Value:
    """Lengths as (N, 1)."""
    value = lengths if isinstance(lengths, ir.Value) else ctx.constant(np.asarray(lengths, dtype=np.int64))
    made: ir.Value = ctx.op.Reshape(ctx.cast(value, INT64), [-1, 1])
    made.shape = ir.Shape([None, 1])
    return made


def _losses(
    ctx: Context, log_probs: ir.Value, targets: ir.Value, input_lengths: Lengths, lengths: ir.Value, blank: int
) -> ir.Value:
    """-log of the probability that the whole text was read, its last blank or not; (N), or 0-D for one sample."""
    op = ctx.op
    single = ctx.rank(log_probs) == 2
    frames = ctx.unsqueeze(log_probs, 1) if single else log_probs
    dtype = frames.dtype or FLOAT
    extended = _with_blanks(ctx, _labels(ctx, targets, lengths, blank), blank)
    reached = _alignments(ctx, frames, _column(ctx, input_lengths), extended)
    last = op.Mul(lengths, 2)
    at_blank = op.GatherElements(reached, last, axis=1)
    at_label = op.GatherElements(reached, op.Max(op.Sub(last, 1), 0), axis=1)
    at_label = op.Where(op.Equal(last, 0), ctx.constant(-np.inf, dtype), at_label)
    loss = op.Squeeze(op.Neg(_log_sum(ctx, [at_blank, at_label])), [1])
    loss.shape = ir.Shape([None])
    return ctx.reshape(loss, []) if single else loss


@lowering("aten::_ctc_loss", "aten::_ctc_loss.Tensor")
def ctc_losses(
    ctx: Context,
    log_probs: ir.Value,
    targets: ir.Value,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    zero_infinity: bool = False,
) -> tuple[ir.Value, None]:
    if ctx.used(1):
        ctx.unsupported("the results", "the table of alignments", "use torch.nn.functional.ctc_loss")
    return _losses(ctx, log_probs, targets, input_lengths, _column(ctx, target_lengths), blank), None


@lowering("aten::ctc_loss.IntList", "aten::ctc_loss.Tensor")
def ctc_loss(
    ctx: Context,
    log_probs: ir.Value,
    targets: ir.Value,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> ir.Value:
    """The mean is taken of the losses over the lengths of their texts; texts that do not fit may count as 0."""
    lengths = _column(ctx, target_lengths)
    loss = _losses(ctx, log_probs, targets, input_lengths, lengths, blank)
    if zero_infinity:
        loss = ctx.op.Where(ctx.op.Equal(loss, np.inf), ctx.constant(0.0, loss.dtype), loss)
    if reduction == 0:
        return loss
    if reduction == 2:
        return ctx.op.ReduceSum(loss, None, keepdims=0)
    divisor = ctx.cast(ctx.op.Max(ctx.op.Reshape(lengths, [-1]), 1), loss.dtype)
    return ctx.op.ReduceMean(ctx.op.Div(loss, divisor), None, keepdims=0)
