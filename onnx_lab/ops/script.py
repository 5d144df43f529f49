"""Loops and lists of TorchScript programs: Loop, and ONNX sequences."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from onnx_lab.lower.context import Context, Size
from onnx_lab.lower.registry import lowering
from onnx_lab.program.graph import Region

INT64, DOUBLE, BOOL = ir.DataType.INT64, ir.DataType.DOUBLE, ir.DataType.BOOL


@lowering("script::loop")
def script_loop(ctx: Context, trips: Size | None, going: Any, init: list[Any], body: Region) -> Any:
    """Loop: the body takes the turn and the states, and gives first whether to go on, then the states."""
    turn, *states = [ctx.parameter(name, spec) for name, spec in body.params]

    def once() -> list[Any]:
        after, *made = ctx.run_region(body, [turn, *states])
        return [_truth(ctx, after), *(_of_type(ctx, one, state) for one, state in zip(made, states, strict=True))]

    going_in = ir.Value(name=f"{turn.name}_going", type=ir.TensorType(BOOL), shape=ir.Shape([]))
    graph = ctx.loop_body([turn, going_in, *states], once, "loop_body")
    start = [_of_type(ctx, one, state) for one, state in zip(init, states, strict=True)]
    count = None if trips is None else ctx.value(trips, INT64)
    made = ctx.op.Loop(count, _truth(ctx, going), *start, body=graph, outputs=len(states))
    results = made if isinstance(made, tuple) else (made,)
    for result, state in zip(results, states, strict=True):
        result.type = state.type
    return results


def _of_type(ctx: Context, item: Any, like: ir.Value) -> ir.Value:
    return item if isinstance(item, ir.Value) else ctx.constant(item, like.dtype)


def _truth(ctx: Context, value: Any) -> ir.Value:
    made = ctx.value(value, BOOL)
    return made if not ctx.rank(made) else ctx.reshape(made, [])


def _list(ctx: Context, made: ir.Value) -> ir.Value:
    """A result that is a list, with its type."""
    made.type = ir.SequenceType(ir.TensorType(ctx.out_dtype))
    return made


@lowering("list::pack")
def list_pack(ctx: Context, items: list[ir.Value], dtype: ir.DataType) -> ir.Value:
    return _list(ctx, ctx.op.SequenceConstruct(*items) if items else ctx.op.SequenceEmpty(dtype=int(dtype)))


@lowering("list::append")
def list_append(ctx: Context, items: ir.Value, item: ir.Value) -> ir.Value:
    return _list(ctx, ctx.op.SequenceInsert(items, item))


@lowering("list::insert")
def list_insert(ctx: Context, items: ir.Value, index: Size, item: ir.Value) -> ir.Value:
    return _list(ctx, ctx.op.SequenceInsert(items, item, ctx.value(index, INT64)))


@lowering("list::set")
def list_set(ctx: Context, items: ir.Value, index: Size, item: ir.Value) -> ir.Value:
    """Erase and insert; an index from the end is counted from the front, as the list is shorter in between."""
    at: Any = index
    if not isinstance(index, int) or index < 0:
        value = ctx.value(index, INT64)
        at = ctx.op.Where(ctx.op.Less(value, 0), ctx.op.Add(value, ctx.op.SequenceLength(items)), value)
    at = ctx.value(at, INT64)
    erased = _list(ctx, ctx.op.SequenceErase(items, at))
    return _list(ctx, ctx.op.SequenceInsert(erased, item, at))


@lowering("list::pop")
def list_pop(ctx: Context, items: ir.Value, index: Size) -> ir.Value:
    return _list(ctx, ctx.op.SequenceErase(items, ctx.value(index, INT64)))


@lowering("list::get")
def list_get(ctx: Context, items: ir.Value, index: Size) -> ir.Value:
    made: ir.Value = ctx.op.SequenceAt(items, ctx.value(index, INT64))
    made.type = ir.TensorType(ctx.out_dtype)
    return made


@lowering("list::len")
def list_len(ctx: Context, items: ir.Value) -> ir.Value:
    return ctx.op.SequenceLength(items)


@lowering("list::stack")
def list_stack(ctx: Context, items: ir.Value, dim: int) -> ir.Value:
    made: ir.Value = ctx.op.ConcatFromSequence(items, axis=dim, new_axis=1)
    made.type = ir.TensorType(ctx.out_dtype)
    return made


@lowering("list::cat")
def list_cat(ctx: Context, items: ir.Value, dim: int) -> ir.Value:
    made: ir.Value = ctx.op.ConcatFromSequence(items, axis=dim)
    made.type = ir.TensorType(ctx.out_dtype)
    return made


# Functions of a Python float: key → operator.
_MATH = {
    "exp": "Exp", "log": "Log", "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos",
    "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "tanh": "Tanh", "asinh": "Asinh", "acosh": "Acosh",
    "atanh": "Atanh", "erf": "Erf",
}  # fmt: skip


def _math(op_type: str) -> Any:
    def function(ctx: Context, x: Any) -> ir.Value:
        made: ir.Value = getattr(ctx.op, op_type)(ctx.value(x, DOUBLE))
        return made

    return function


for _name, _op_type in _MATH.items():
    lowering(f"math::{_name}")(_math(_op_type))
