"""Arithmetic on Python numbers: done at once where it is known, else a call on numbers of the graph."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import sympy
import torch
from torch.utils._sympy.functions import Max, Min

from onnx_lab.capture.torchscript.ratios import is_not_negative, ratio_of
from onnx_lab.capture.torchscript.sequences import as_number
from onnx_lab.capture.torchscript.tape import Tape
from onnx_lab.capture.torchscript.values import Number, TensorValue, Value, is_number
from onnx_lab.errors import CaptureError
from onnx_lab.program.spec import DType

# TorchScript's name → key in the captured graph, and its rule on symbolic integers.
_ARITHMETIC: dict[str, tuple[str, Callable[..., Any]]] = {
    "aten::add": ("_operator::add", operator.add),
    "aten::sub": ("_operator::sub", operator.sub),
    "aten::mul": ("_operator::mul", operator.mul),
    "aten::floordiv": ("_operator::floordiv", operator.floordiv),
    "aten::remainder": ("_operator::mod", operator.mod),
    "aten::neg": ("_operator::neg", operator.neg),
    "prim::min": ("torch::sym_min", torch.sym_min),
    "prim::max": ("torch::sym_max", torch.sym_max),
}
_COMPARISON: dict[str, tuple[str, Callable[..., Any]]] = {
    f"aten::{name}": (f"_operator::{name}", getattr(operator, name)) for name in ("eq", "ne", "lt", "le", "gt", "ge")
}
_FLOAT = {
    "aten::div": "_operator::truediv",
    **{
        f"aten::{name}": f"math::{name}"
        for name in (
            "sqrt exp expm1 log log1p log2 log10 sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh erf"
        ).split()
    },
}
_TO_INT = {"aten::floor": "math::floor", "aten::ceil": "math::ceil", "aten::trunc": "math::trunc"}
_CASTS = {"aten::Int": "int", "aten::Float": "float", "aten::Bool": "bool"}
_LOGIC = {"aten::__and__": "_operator::and", "aten::__or__": "_operator::or"}


def is_scalar_operator(args: list[Value]) -> bool:
    """Whether an operator computes with numbers alone, one of which only the run tells."""
    return bool(args) and all(map(is_number, args)) and any(isinstance(arg, Number) for arg in args)


def compute(tape: Tape, kind: str, args: list[Value], result: str | None = None) -> Value:
    """The result of an operator on numbers; ``result`` is its type (int, float, bool) where that is declared.

    Raises:
        CaptureError: there is none for numbers that only the run tells.
    """
    if kind in _CASTS:
        return cast(tape, args[0], _CASTS[kind])
    if kind in _COMPOSED:
        return _COMPOSED[kind](tape, args)
    if kind in _COMPARISON:
        key, rule = _COMPARISON[kind]
        return _emit(tape, key, args, "bool", rule)
    if kind in _ARITHMETIC:
        key, rule = _ARITHMETIC[kind]
        return _with_ratio(tape, kind, args, _emit(tape, key, args, _common_kind(args), rule))
    if kind == "aten::pow":
        made = _emit(tape, "_operator::pow", args, _common_kind(args), None)
        return cast(tape, made, result or made.kind)
    if kind in _FLOAT:
        return _with_ratio(tape, kind, args, _emit(tape, _FLOAT[kind], args, "float", None))
    if kind in _TO_INT:
        return args[0] if _kind(args[0]) == "int" else _rounded(tape, kind, args[0])
    raise CaptureError(
        f"{kind} of numbers that only the run tells",
        source=tape.source,
        hint="compute it with tensors: torch.tensor(x), then int() or float() of the result",
    )


def compute_any(tape: Tape, kind: str, args: list[Value]) -> Value:
    """``compute``, at once when all numbers are known."""
    if is_scalar_operator(args):
        return compute(tape, kind, args)
    function = {"prim::max": max, "prim::min": min}.get(kind) or _ARITHMETIC[kind][1]
    return function(*args)


def _emit(tape: Tape, key: str, args: list[Value], kind: str, rule: Callable[..., Any] | None) -> Value:
    result = None
    if rule is not None and all(_kind(arg) == "int" for arg in args):
        result = rule(*(arg.sym if isinstance(arg, Number) else arg for arg in args))
        if key in _DIVISIONS and not isinstance(result, int) and any(map(_is_limited, args)):
            result = tape.fresh(kind)  # torch simplifies divisions of minima and maxima to wrong expressions
        if isinstance(result, (int, bool)):
            return result
    if result is None:
        result = tape.fresh(kind)
    return tape.emit(key, tuple(map(argument, args)), result)


def _with_ratio(tape: Tape, kind: str, args: list[Value], made: Value) -> Value:
    if isinstance(made, Number) and made.kind == "float":
        made.ratio = ratio_of(tape, kind, args, lambda tape, a, b: compute_any(tape, "aten::mul", [a, b]))
    return made


def _rounded(tape: Tape, kind: str, value: Value) -> Value:
    """A float as an int, by arithmetic on ints when it is a quotient of two."""
    if value.ratio is None:
        return _emit(tape, _TO_INT[kind], [value], "int", None)
    numerator, denominator = value.ratio
    if kind == "aten::trunc" and not is_not_negative(numerator):
        return _emit(tape, _TO_INT[kind], [value], "int", None)
    if kind != "aten::ceil":
        return compute_any(tape, "aten::floordiv", [numerator, denominator])
    negative = compute_any(tape, "aten::neg", [numerator])
    return compute_any(tape, "aten::neg", [compute_any(tape, "aten::floordiv", [negative, denominator])])


_DIVISIONS = ("_operator::mod", "_operator::floordiv")


def _is_limited(value: Value) -> bool:
    """Whether a minimum or maximum is part of a number."""
    return isinstance(value, Number) and bool(value.sym.node.expr.has(sympy.Max, sympy.Min, Max, Min, sympy.Abs))


def argument(value: Value) -> Any:
    """A number as a captured argument."""
    return value.ref if isinstance(value, Number) else value


def _kind(value: Value) -> str:
    return value.kind if isinstance(value, Number) else type(value).__name__


def _common_kind(args: list[Value]) -> str:
    kinds = {_kind(arg) for arg in args}
    return "float" if "float" in kinds else "int"


def _derived_index(tape: Tape, args: list[Value]) -> Value:
    """The index of a turn: start + turn · step."""
    turn, start, step = args
    return compute_any(tape, "aten::add", [start, compute_any(tape, "aten::mul", [turn, step])])


def _absolute(tape: Tape, args: list[Value]) -> Value:
    return compute_any(tape, "prim::max", [args[0], compute_any(tape, "aten::neg", [args[0]])])


def _range_length(tape: Tape, args: list[Value]) -> Value:
    """max(0, ⌈(stop − start) / step⌉)."""
    start, stop, step = args
    if not isinstance(step, int):
        raise CaptureError("range() with a step that only the run tells", source=tape.source, hint="use a fixed step")
    if step < 0:
        start, stop, step = stop, start, -step
    room = compute_any(tape, "aten::sub", [stop, start])
    turns = room if step == 1 else compute_any(tape, "aten::floordiv", [_plus(tape, room, step - 1), step])
    return compute_any(tape, "prim::max", [turns, 0])


def _plus(tape: Tape, value: Value, number: int) -> Value:
    return compute_any(tape, "aten::add", [value, number])


# -- truth ------------------------------------------------------------------------------------------


def negation(tape: Tape, value: Value) -> Value:
    value = cast(tape, value, "bool")
    if not isinstance(value, Number):
        return not value
    return tape.emit("torch::sym_not", (value.ref,), torch.sym_not(value.sym))


def _logic(tape: Tape, kind: str, args: list[Value]) -> Value:
    one, other = args
    if _kind(one) != "bool":
        raise CaptureError(
            f"{kind} of integers that only the run tells", source=tape.source, hint="use tensors for bits"
        )
    if not isinstance(one, Number):
        one, other = other, one
    if not isinstance(other, Number):
        absorbing = kind == "aten::__or__"
        return other if bool(other) is absorbing else one
    return tape.emit(_LOGIC[kind], (one.ref, other.ref), tape.fresh("bool"))


_COMPOSED: dict[str, Callable[[Tape, list[Value]], Value]] = {
    "aten::__and__": lambda tape, args: _logic(tape, "aten::__and__", args),
    "aten::__or__": lambda tape, args: _logic(tape, "aten::__or__", args),
    "aten::__xor__": lambda tape, args: compute_any(tape, "aten::ne", args),
    "aten::__not__": lambda tape, args: negation(tape, args[0]),
    "aten::__range_length": _range_length,
    "aten::__derive_index": _derived_index,
    "prim::abs": _absolute,
}


# -- conversions ------------------------------------------------------------------------------------


def cast(tape: Tape, value: Value, kind: str) -> Value:
    """int(), float() or bool() of a number or of a tensor with one element."""
    if isinstance(value, TensorValue):
        return _of_tensor(tape, value, kind)
    if not isinstance(value, Number):
        return {"int": int, "float": float, "bool": bool}[kind](value)
    if value.kind == kind:
        return value
    if kind == "bool":
        return _emit(tape, "_operator::ne", [value, 0], "bool", operator.ne)
    if kind == "int" and value.kind == "float":
        return _rounded(tape, "aten::trunc", value)
    key = "torch::sym_float" if kind == "float" else "torch::sym_int"
    made = tape.emit(key, (value.ref,), tape.fresh(kind))
    if kind == "float" and value.kind == "int":
        made.ratio = (value, 1)
    return made


def _of_tensor(tape: Tape, value: TensorValue, kind: str) -> Value:
    if tape.number_in(value) is not None:
        return cast(tape, value.number, kind)
    dtype = value.fake.dtype
    if dtype.is_complex:
        raise CaptureError("a complex tensor is read as a number", source=tape.source, hint="read its real part")
    if kind == "int" and dtype.is_floating_point:
        # As a tensor: an int of 64 bits does not fit into a double.
        whole = tape.emit("aten::to.dtype", (value.ref, DType("int64")), tape.fake(torch.int64, value.fake.shape))
        return as_number(tape, whole)
    return cast(tape, as_number(tape, value), kind)


def truth(tape: Tape, value: Value) -> Value:
    """A condition: True or False where that is known, else a Number."""
    return cast(tape, value, "bool")
