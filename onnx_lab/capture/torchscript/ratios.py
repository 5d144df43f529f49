"""Floats that are quotients of ints: rounded by arithmetic on the ints, exactly as Python rounds them.

The quotient of two sizes says nothing of a shape; the floor of ``size / 2`` as ``size // 2`` does.
"""

from __future__ import annotations

from typing import Any

from torch.fx.experimental.symbolic_shapes import statically_known_true

from onnx_lab.capture.torchscript.tape import Tape
from onnx_lab.capture.torchscript.values import Number, Value

# Of a float factor: beyond that a product may be rounded, and is no exact quotient.
_LARGEST_DENOMINATOR = 2**20


def ratio_of(tape: Tape, kind: str, args: list[Value], multiply: Any) -> tuple[Value, Value] | None:
    """Numerator and denominator of a quotient or product; None when it is none of ints and simple fractions."""
    one, other = _parts(args[0]), _parts(args[1]) if len(args) > 1 else None
    if one is None or other is None:
        return None
    (a, b), (c, d) = one, other
    if kind == "aten::div":
        if isinstance(c, int) and c <= 0:
            return None
        c, d = d, c
    elif kind != "aten::mul":
        return None
    return multiply(tape, a, c), multiply(tape, b, d)


def _parts(value: Value) -> tuple[Value, Value] | None:
    if isinstance(value, Number):
        return (value, 1) if value.kind == "int" else value.ratio
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value, 1
    if isinstance(value, float) and value == value and abs(value) < _LARGEST_DENOMINATOR:
        numerator, denominator = value.as_integer_ratio()
        return (numerator, denominator) if denominator <= _LARGEST_DENOMINATOR else None
    return None


def is_not_negative(value: Value) -> bool:
    """Whether it is known of a number that it is at least 0."""
    if isinstance(value, Number):
        sym: Any = value.sym
        return bool(statically_known_true(sym >= 0))
    return bool(value >= 0)
