"""Random complex numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from onnx_lab.lower.complex import Complex, is_complex
from onnx_lab.lower.context import Context, Size
from onnx_lab.lower.registry import complex_lowering
from onnx_lab.ops.random import Form, normal, uniform

Sizes = Sequence[Size]


def _both(ctx: Context, source: Any, form: Form) -> Complex:
    """Parts alike; those of a normal number have half of its variance each."""
    dtype = ctx.out_dtype
    parts = [source(ctx, form, dtype) for _ in range(2)]
    if source is normal:
        parts = [ctx.op.Mul(part, 0.5**0.5) for part in parts]
    real, imag = (ctx.cast(part, dtype) for part in parts)
    return Complex(real, imag)


def _complex_of_size(source: Any) -> Any:
    def complex_of_size(
        ctx: Context,
        size: Sizes,
        *,
        generator: None = None,
        dtype: ir.DataType | None = None,
        layout: str | None = None,
        device: str | None = None,
        pin_memory: bool | None = None,
    ) -> Complex:
        return _both(ctx, source, Form.of(ctx, size))

    return complex_of_size


def _complex_of_other(source: Any) -> Any:
    def complex_like(
        ctx: Context,
        x: ir.Value | Complex,
        *,
        generator: None = None,
        dtype: ir.DataType | None = None,
        layout: str | None = None,
        device: str | None = None,
        pin_memory: bool | None = None,
        memory_format: str | None = None,
    ) -> Any:
        form = Form.like(ctx, x.real if isinstance(x, Complex) else x)
        if not is_complex(ctx.call.spec):
            return ctx.cast(source(ctx, form, ctx.out_dtype), ctx.out_dtype)
        return _both(ctx, source, form)

    return complex_like


for name, source in {"rand": uniform, "randn": normal}.items():
    complex_lowering(f"aten::{name}", f"aten::{name}.generator")(_complex_of_size(source))
    complex_lowering(f"aten::{name}_like", f"aten::{name}_like.generator")(_complex_of_other(source))
