"""Recurrent layers: one ONNX operator per layer, both directions in it; and the single steps.

The module's weights stay as they are, under their own names: ONNX's order of gates is made from them by
Gather in the graph, which ONNX Runtime folds when it loads the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_lab.lower.context import Context
from onnx_lab.lower.registry import lowering

Values = Sequence[ir.Value]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of layer.

    Attributes:
        operator: the ONNX operator.
        gates: for each of ONNX's gates, its place among torch's.
        attributes: further attributes of the ONNX node, lists for one direction.
    """

    operator: str
    gates: tuple[int, ...]
    attributes: tuple[tuple[str, Any], ...] = ()


# ONNX has input, output, forget, cell where torch has input, forget, cell, output;
# and update, reset, new where torch has reset, update, new.
_LSTM = Kind("LSTM", (0, 3, 1, 2))
_GRU = Kind("GRU", (1, 0, 2), (("linear_before_reset", 1),))
_RNN = {name: Kind("RNN", (0,), (("activations", (onnx_name,)),)) for name, onnx_name in
        (("tanh", "Tanh"), ("relu", "Relu"))}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Weights:
    """Parameters of one layer in one direction, as torch has them."""

    input: ir.Value
    hidden: ir.Value
    biases: tuple[ir.Value, ...]
    projection: ir.Value | None


def split_params(ctx: Context, params: Values, layers: int, directions: int, has_biases: bool) -> list[list[Weights]]:
    """Torch's flat list by layer and direction; a fifth (or third) parameter is the projection of an LSTM."""
    plain = 4 if has_biases else 2
    each, rest = divmod(len(params), layers * directions)
    if rest or each not in (plain, plain + 1):
        ctx.unsupported("params", f"{len(params)} tensors for {layers} layers")
    groups = [params[start : start + each] for start in range(0, len(params), each)]
    made = [Weights(one[0], one[1], tuple(one[2:plain]), one[plain] if each > plain else None) for one in groups]
    return [made[start : start + directions] for start in range(0, len(made), directions)]


def run_layers(
    ctx: Context,
    kind: Kind,
    input: ir.Value,
    states: Values,
    params: Values,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[ir.Value, ...]:
    """Output ``(T, N, D·H)`` (or batch first), then the last states ``(L·D, N, H)``."""
    if train and dropout > 0 and num_layers > 1:
        ctx.unsupported("dropout", dropout, "export the model in eval mode")
    directions = 2 if bidirectional else 1
    layers = split_params(ctx, params, num_layers, directions, has_biases)
    x = ctx.op.Transpose(input, perm=[1, 0, 2]) if batch_first else input
    last: list[list[ir.Value]] = [[] for _ in states]
    for number, weights in enumerate(layers):
        begin = [_part(ctx, state, number * directions, directions, num_layers) for state in states]
        run = _projected_layer if weights[0].projection is not None else _layer
        made, *ends = run(ctx, kind, x, begin, weights)
        x = _joined(ctx, made, directions, batch_first and number == num_layers - 1)
        for collected, end in zip(last, ends, strict=True):
            collected.append(end)
    return x, *(one[0] if len(one) == 1 else ctx.op.Concat(*one, axis=0) for one in last)


def _part(ctx: Context, state: ir.Value, start: int, count: int, layers: int) -> ir.Value | None:
    """The states of one layer; None for zeros, which ONNX takes when no state is given."""
    producer = state.producer()
    if producer is not None and producer.op_type == "ConstantOfShape":
        fill = producer.attributes.get("value")
        if fill is None or not fill.as_tensor().numpy().any():
            return None
    return state if layers == 1 else ctx.op.Slice(state, [start], [start + count], [0])


def _joined(ctx: Context, made: ir.Value, directions: int, batch_first: bool) -> ir.Value:
    """``(T, D, N, H)`` as ``(T, N, D·H)`` or ``(N, T, D·H)``."""
    if directions == 1:
        made = ctx.op.Squeeze(made, [1])
        made = ctx.op.Transpose(made, perm=[1, 0, 2]) if batch_first else made
    else:
        made = ctx.op.Transpose(made, perm=[2, 0, 1, 3] if batch_first else [0, 2, 1, 3])
        made = ctx.op.Reshape(made, [0, 0, -1])
    made.shape = ir.Shape([None, None, None])
    return made


def _stacked(ctx: Context, values: Values) -> ir.Value:
    """One value per direction along a new first axis."""
    parts = [ctx.op.Unsqueeze(value, [0]) for value in values]
    return parts[0] if len(parts) == 1 else ctx.op.Concat(*parts, axis=0)


def _reordered(ctx: Context, kind: Kind, values: Values, hidden: int, blocks: int = 1) -> ir.Value:
    """Parameters of all directions with the rows of each block of gates in ONNX's order."""
    stacked = _stacked(ctx, values)
    if len(kind.gates) == 1:
        return stacked
    gates = [block * len(kind.gates) + gate for block in range(blocks) for gate in kind.gates]
    rows = np.concatenate([np.arange(gate * hidden, (gate + 1) * hidden) for gate in gates])
    return ctx.op.Gather(stacked, ctx.constant(rows), axis=1)


def _layer(
    ctx: Context, kind: Kind, x: ir.Value, states: Sequence[ir.Value | None], weights: Sequence[Weights]
) -> tuple[ir.Value, ...]:
    hidden = ctx.fixed_size(weights[0].hidden, 1, "params")
    operands: list[ir.Value | None] = [
        x,
        _reordered(ctx, kind, [one.input for one in weights], hidden),
        _reordered(ctx, kind, [one.hidden for one in weights], hidden),
    ]
    if weights[0].biases:
        biases = [ctx.op.Concat(*one.biases, axis=0) for one in weights]
        operands.append(_reordered(ctx, kind, biases, hidden, blocks=2))
    if any(state is not None for state in states):
        operands += [None] * (5 - len(operands))
        operands += states
    attributes: dict[str, Any] = {
        name: value * len(weights) if isinstance(value, tuple) else value for name, value in kind.attributes
    }
    direction = "bidirectional" if len(weights) == 2 else None
    return ctx.op.emit(
        kind.operator, operands, outputs=1 + len(states), hidden_size=hidden, direction=direction, **attributes
    )


# -- LSTM with a projection -------------------------------------------------------------------------------


def _projected_layer(
    ctx: Context, kind: Kind, x: ir.Value, states: Sequence[ir.Value | None], weights: Sequence[Weights]
) -> tuple[ir.Value, ...]:
    """ONNX's LSTM has no projection: a Scan over time for each direction."""
    made = [
        _projected_direction(ctx, x, [None if state is None else _row(ctx, state, side) for state in states], one, side)
        for side, one in enumerate(weights)
    ]
    outputs, *ends = zip(*made, strict=True)
    joined = [ctx.op.Unsqueeze(output, [1]) for output in outputs]
    output = joined[0] if len(joined) == 1 else ctx.op.Concat(*joined, axis=1)
    return output, *(_stacked(ctx, end) for end in ends)


def _row(ctx: Context, state: ir.Value, index: int) -> ir.Value:
    return ctx.op.Gather(state, ctx.constant(index), axis=0)


def _projected_direction(
    ctx: Context, x: ir.Value, states: Sequence[ir.Value | None], weights: Weights, side: int
) -> tuple[ir.Value, ...]:
    """(T, N, P), and the last hidden ``(N, P)`` and cell ``(N, H)``."""
    assert weights.projection is not None
    dtype, hidden = x.dtype or ir.DataType.FLOAT, ctx.fixed_size(weights.projection, 1, "params")
    widths = (ctx.fixed_size(weights.projection, 0, "params"), hidden)
    begin = [
        ctx.full([ctx.size(x, 1), width], 0, dtype) if state is None else state
        for state, width in zip(states, widths, strict=True)
    ]
    gates = ctx.op.MatMul(x, ctx.transpose(weights.input, [1, 0]))
    for bias in weights.biases:
        gates = ctx.op.Add(gates, bias)
    given = [
        ir.Value(name=name, type=ir.TensorType(dtype), shape=ir.Shape([None, width]))
        for name, width in (("hidden", widths[0]), ("cell", hidden), ("gates", 4 * hidden))
    ]

    def step() -> list[ir.Value]:
        recurrent = ctx.op.MatMul(given[0], ctx.transpose(weights.hidden, [1, 0]))
        cell, out = _lstm_update(ctx, ctx.op.Add(given[2], recurrent), given[1])
        projected = ctx.op.MatMul(out, ctx.transpose(weights.projection, [1, 0]))  # type: ignore[arg-type]
        return [projected, cell, projected]

    body = ctx.loop_body(given, step, "lstm_step")
    backwards = [1] if side else None
    last, cell, output = ctx.op.Scan(
        *begin, gates, body=body, num_scan_inputs=1, outputs=3,
        scan_input_directions=backwards, scan_output_directions=backwards,
    )  # fmt: skip
    for value in (last, cell, output):
        value.type = ir.TensorType(dtype)
    return output, last, cell


def _lstm_update(ctx: Context, gates: ir.Value, cell: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The new cell and what the cell gives out, from torch's gates: input, forget, cell, output."""
    op = ctx.op
    into, forget, new, out = op.Split(gates, axis=-1, num_outputs=4, outputs=4)
    cell = op.Add(op.Mul(op.Sigmoid(forget), cell), op.Mul(op.Sigmoid(into), op.Tanh(new)))
    return cell, op.Mul(op.Sigmoid(out), op.Tanh(cell))


# -- layers -----------------------------------------------------------------------------------------------


@lowering("onnx_lab::lstm", "aten::lstm.input")
def lstm(
    ctx: Context,
    input: ir.Value,
    hx: Values,
    params: Values,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[ir.Value, ...]:
    return run_layers(ctx, _LSTM, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)


def _one_state(kind: Kind) -> Callable[..., tuple[ir.Value, ...]]:
    def layer(
        ctx: Context,
        input: ir.Value,
        hx: ir.Value,
        params: Values,
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[ir.Value, ...]:
        return run_layers(
            ctx, kind, input, [hx], params, has_biases, num_layers, dropout, train, bidirectional, batch_first
        )

    layer.__name__ = kind.operator.lower()
    return layer


for _name, _kind in (("gru", _GRU), ("rnn_tanh", _RNN["tanh"]), ("rnn_relu", _RNN["relu"])):
    lowering(f"onnx_lab::{_name}", f"aten::{_name}.input")(_one_state(_kind))


# -- single steps -----------------------------------------------------------------------------------------


def _linear(ctx: Context, x: ir.Value, weight: ir.Value, bias: ir.Value | None) -> ir.Value:
    return ctx.lower("aten::linear", x, weight, bias)


@lowering("aten::lstm_cell")
def lstm_cell(
    ctx: Context,
    input: ir.Value,
    hx: Values,
    w_ih: ir.Value,
    w_hh: ir.Value,
    b_ih: ir.Value | None = None,
    b_hh: ir.Value | None = None,
) -> tuple[ir.Value, ir.Value]:
    gates = ctx.op.Add(_linear(ctx, input, w_ih, b_ih), _linear(ctx, hx[0], w_hh, b_hh))
    cell, hidden = _lstm_update(ctx, gates, hx[1])
    return hidden, cell


@lowering("aten::gru_cell")
def gru_cell(
    ctx: Context,
    input: ir.Value,
    hx: ir.Value,
    w_ih: ir.Value,
    w_hh: ir.Value,
    b_ih: ir.Value | None = None,
    b_hh: ir.Value | None = None,
) -> ir.Value:
    """The new state is n + z·(h − n); the reset gate acts after the recurrent product and its bias."""
    op = ctx.op
    from_input, from_hidden = _linear(ctx, input, w_ih, b_ih), _linear(ctx, hx, w_hh, b_hh)
    reset_x, update_x, new_x = op.Split(from_input, axis=-1, num_outputs=3, outputs=3)
    reset_h, update_h, new_h = op.Split(from_hidden, axis=-1, num_outputs=3, outputs=3)
    reset, update = op.Sigmoid(op.Add(reset_x, reset_h)), op.Sigmoid(op.Add(update_x, update_h))
    new = op.Tanh(op.Add(new_x, op.Mul(reset, new_h)))
    return op.Add(new, op.Mul(update, op.Sub(hx, new)))


def _rnn_cell(activation: str) -> Callable[..., ir.Value]:
    def rnn_cell(
        ctx: Context,
        input: ir.Value,
        hx: ir.Value,
        w_ih: ir.Value,
        w_hh: ir.Value,
        b_ih: ir.Value | None = None,
        b_hh: ir.Value | None = None,
    ) -> ir.Value:
        total = ctx.op.Add(_linear(ctx, input, w_ih, b_ih), _linear(ctx, hx, w_hh, b_hh))
        return ctx.op.emit(activation, [total])

    return rnn_cell


lowering("aten::rnn_tanh_cell")(_rnn_cell("Tanh"))
lowering("aten::rnn_relu_cell")(_rnn_cell("Relu"))
