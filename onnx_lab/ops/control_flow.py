"""torch.cond, while_loop, scan and map as If, Loop and Scan; bodies capture outer values as ONNX does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from onnx_lab.lower.context import Context
from onnx_lab.lower.registry import lowering
from onnx_lab.program.graph import Region

INT64, BOOL = ir.DataType.INT64, ir.DataType.BOOL


@lowering("higher_order::cond")
def cond(ctx: Context, pred: Any, operands: Sequence[Any], true_fn: Region, false_fn: Region) -> Any:
    """If: both branches are kept; the operands are outer values inside them."""
    then_graph, then_values = ctx.body(true_fn, operands)
    else_graph, else_values = ctx.body(false_fn, operands)
    for one, other in zip(then_values, else_values, strict=True):
        if one.dtype != other.dtype:
            ctx.unsupported("branches", f"results of types {one.dtype} and {other.dtype}", "cast inside one branch")
    made = ctx.op.If(_truth(ctx, pred), then_branch=then_graph, else_branch=else_graph, outputs=len(then_values))
    results = made if isinstance(made, tuple) else (made,)
    for result, value in zip(results, then_values, strict=True):
        result.type = value.type
    return results


@lowering("higher_order::while_loop")
def while_loop(
    ctx: Context,
    carried_inputs: Sequence[Any],
    additional_inputs: Sequence[Any],
    cond_fn: Region,
    body_fn: Region,
) -> Any:
    """Loop without a trip count: the condition is computed before the first turn and at the end of each."""
    start = [_as_value(ctx, item) for item in carried_inputs]
    extra = list(additional_inputs)
    first = _truth(ctx, ctx.run_region(cond_fn, [*start, *extra])[0])
    turn, going = _given("turn", INT64, []), _given("going", BOOL, [])
    states = [_state(value, index) for index, value in enumerate(start)]

    def turn_once() -> list[Any]:
        after = [_as_value(ctx, item) for item in ctx.run_region(body_fn, [*states, *extra])]
        return [_truth(ctx, ctx.run_region(cond_fn, [*after, *extra])[0]), *after]

    body = ctx.loop_body([turn, going, *states], turn_once, "while_body")
    made = ctx.op.Loop(None, first, *start, body=body, outputs=len(start))
    results = made if isinstance(made, tuple) else (made,)
    for result, value in zip(results, start, strict=True):
        result.type = value.type
    return results


@lowering("higher_order::scan")
def scan(
    ctx: Context, init: Sequence[Any], xs: Sequence[Any], additional_inputs: Sequence[Any], combine_fn: Region
) -> Any:
    """Scan over axis 0: the region takes states, slices and outer values, and returns states and rows."""
    return _scan(ctx, list(init), list(xs), list(additional_inputs), combine_fn)


@lowering("higher_order::map_impl")
def map_(ctx: Context, xs: Sequence[Any], pos_args: Sequence[Any], f: Region) -> Any:
    """A Scan without states."""
    return _scan(ctx, [], list(xs), list(pos_args), f)


def _scan(ctx: Context, init: list[Any], xs: list[ir.Value], extra: list[Any], region: Region) -> Any:
    start = [_as_value(ctx, item) for item in init]
    states = [_state(value, index) for index, value in enumerate(start)]
    slices = [_slice(value, index) for index, value in enumerate(xs)]

    def step() -> list[Any]:
        return [_as_value(ctx, item) for item in ctx.run_region(region, [*states, *slices, *extra])]

    body = ctx.loop_body([*states, *slices], step, "scan_body")
    made = ctx.op.Scan(*start, *xs, body=body, num_scan_inputs=len(xs), outputs=len(region.outputs))
    results = made if isinstance(made, tuple) else (made,)
    for result, value in zip(results, body.outputs, strict=True):
        result.type = value.type
    return results


def _truth(ctx: Context, pred: Any) -> ir.Value:
    """A condition as the 0-D (or one-element) bool that If and Loop take."""
    value = ctx.value(pred, BOOL)
    return value if not ctx.rank(value) else ctx.reshape(value, [])


def _as_value(ctx: Context, item: Any) -> ir.Value:
    return item if isinstance(item, ir.Value) else ctx.constant(item)


def _given(name: str, dtype: ir.DataType, dims: list[Any]) -> ir.Value:
    return ir.Value(name=name, type=ir.TensorType(dtype), shape=ir.Shape(dims))


def _state(value: ir.Value, index: int) -> ir.Value:
    made = ir.Value(name=f"state_{index}", type=value.type, shape=value.shape)
    made.meta.update({key: value.meta[key] for key in ("onnx_lab.complex", "onnx_lab.number") if key in value.meta})
    return made


def _slice(value: ir.Value, index: int) -> ir.Value:
    shape = ir.Shape(list(value.shape)[1:]) if value.shape is not None else None
    return ir.Value(name=f"slice_{index}", type=value.type, shape=shape)
