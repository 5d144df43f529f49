"""Complex tensors as two real ones: ONNX has no complex arithmetic.

Inside a lowered graph a complex value is its real and its imaginary part, of the tensor's own shape.
At the model's border, and for weights, it is one real tensor with a last axis ``(real, imaginary)``,
as ``torch.view_as_real`` gives it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from onnx_lab.lower.builder import Builder
from onnx_lab.lower.dtypes import COMPLEX_NAMES
from onnx_lab.program.spec import Spec, TensorSpec


@dataclass(frozen=True, slots=True)
class Complex:
    """The two parts of a complex value; each has the tensor's shape."""

    real: ir.Value
    imag: ir.Value


def is_complex(spec: Spec) -> bool:
    """Whether a spec (or any part of it) is complex."""
    if isinstance(spec, tuple):
        return any(is_complex(one) for one in spec)
    return isinstance(spec, TensorSpec) and spec.dtype in COMPLEX_NAMES


def contains_complex(value: Any) -> bool:
    """Whether an argument is, or holds, a complex value or number."""
    if isinstance(value, (list, tuple)):
        return any(contains_complex(item) for item in value)
    if isinstance(value, dict):
        return any(contains_complex(item) for item in value.values())
    return isinstance(value, (Complex, complex))


def split(builder: Builder, packed: ir.Value) -> Complex:
    """The parts of a ``(*shape, 2)`` tensor."""
    real, imag = (builder.Gather(packed, builder.constants.get(index), axis=-1) for index in (0, 1))
    return Complex(real, imag)


def pack(builder: Builder, value: Complex) -> ir.Value:
    """One real ``(*shape, 2)`` tensor of the parts."""
    parts = [builder.Unsqueeze(part, [-1]) for part in (value.real, value.imag)]
    return builder.Concat(*parts, axis=-1)


def part(value: Any, choose: Callable[[Complex], ir.Value], of_real: Callable[[Any], Any]) -> Any:
    """An argument with every complex value replaced by one of its parts.

    Real tensors among them go through ``of_real`` (they are complex with imaginary part zero).
    """
    if isinstance(value, Complex):
        return choose(value)
    if isinstance(value, complex):
        return value.real if choose is real_of else value.imag
    if isinstance(value, (list, tuple)):
        return type(value)(part(item, choose, of_real) for item in value)
    return of_real(value) if isinstance(value, ir.Value) else value


def real_of(value: Complex) -> ir.Value:
    return value.real


def imag_of(value: Complex) -> ir.Value:
    return value.imag
