"""Arithmetic on sizes as tracing writes it: with tensors of one element in place of numbers."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from onnx_lab.capture.torchscript import scalars
from onnx_lab.capture.torchscript.tape import Tape
from onnx_lab.capture.torchscript.values import Number, TensorValue, Value
from onnx_lab.program.op_key import OpKey

# Operator on tensors → the one on numbers, and how many operands it has.
_OPERATORS: dict[str, tuple[str, int]] = {
    "aten::add": ("aten::add", 2),
    "aten::sub": ("aten::sub", 2),
    "aten::rsub": ("aten::sub", 2),
    "aten::mul": ("aten::mul", 2),
    "aten::div": ("aten::div", 2),
    "aten::true_divide": ("aten::div", 2),
    "aten::floor_divide": ("aten::floordiv", 2),
    "aten::remainder": ("aten::remainder", 2),
    "aten::neg": ("aten::neg", 1),
    "aten::ceil": ("aten::ceil", 1),
    "aten::floor": ("aten::floor", 1),
    "aten::trunc": ("aten::trunc", 1),
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "aten::add": operator.add,
    "aten::sub": operator.sub,
    "aten::mul": operator.mul,
    "aten::div": operator.truediv,
    "aten::floordiv": operator.floordiv,
    "aten::remainder": operator.mod,
    "aten::neg": operator.neg,
    "aten::ceil": math.ceil,
    "aten::floor": math.floor,
    "aten::trunc": math.trunc,
}


def number_of(tape: Tape, key: str, args: list[Value]) -> Value:
    """The number in a tensor that was computed from numbers alone; None when it was not, or is not known."""
    name = OpKey(key).qualified_name
    if name not in _OPERATORS:
        return None
    kind, count = _OPERATORS[name]
    operands = [tape.number_in(arg) if isinstance(arg, TensorValue) else arg for arg in args[:count]]
    if not all(isinstance(one, (int, float, Number)) and not isinstance(one, bool) for one in operands):
        return None
    rest = args[count:]
    if kind in ("aten::add", "aten::sub") and rest and rest[0] != 1:
        return None
    if name == "aten::rsub":
        operands.reverse()
    made = _computed(tape, kind, operands)
    rounding = rest[0] if kind == "aten::div" and rest else None
    if rounding is None or made is None:
        return made
    return _computed(tape, "aten::floor" if rounding == "floor" else "aten::trunc", [made])


def _computed(tape: Tape, kind: str, operands: list[Value]) -> Value:
    if scalars.is_scalar_operator(operands):
        return scalars.compute(tape, kind, operands)
    try:
        return _FUNCTIONS[kind](*operands)
    except (ZeroDivisionError, OverflowError, ValueError):  # the tensor holds inf or nan, which is no number here
        return None
