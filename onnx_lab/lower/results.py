"""Binding what a lowering returned to what was captured: names, types, shapes, and the contract."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from onnx_lab.errors import InternalLoweringError
from onnx_lab.lower import dtypes
from onnx_lab.lower.builder import Builder
from onnx_lab.lower.complex import Complex, is_complex
from onnx_lab.program.graph import Call
from onnx_lab.program.spec import ListSpec, ScalarSpec, Spec, SymDim, TensorSpec


def bind_result(call: Call, spec: Spec, result: Any, builder: Builder, index: int | None = None) -> Any:
    """Check a lowering's result against the captured spec and put the spec on it.

    Raises:
        InternalLoweringError: another number of results, dtype or rank than torch has.
    """
    if isinstance(spec, tuple):
        if not isinstance(result, (list, tuple)) or len(result) > len(spec):
            raise _broken(call, f"returned {_describe(result)} where torch has {len(spec)} results")
        padded = [*result, *[None] * (len(spec) - len(result))]
        return tuple(
            None if item is None else bind_result(call, one, item, builder, number)
            for number, (one, item) in enumerate(zip(spec, padded, strict=True))
        )
    if spec is None:
        return result
    if isinstance(result, (list, tuple)) and len(result) == 1:
        result = result[0]
    if isinstance(spec, ListSpec):
        return _bind_list(call, spec, result, index)
    if is_complex(spec):
        return _bind_complex(call, spec, result, index)
    if not isinstance(result, ir.Value):
        if isinstance(result, (list, tuple)) or result is None:
            raise _broken(call, f"returned {_describe(result)} where torch has one result")
        result = builder.constants.get(result, _expected(spec))
    _check(call, spec, result)
    _annotate(call, spec, result, index)
    return result


def _bind_list(call: Call, spec: ListSpec, result: Any, index: int | None) -> ir.Value:
    if not isinstance(result, ir.Value) or not isinstance(result.type, ir.SequenceType):
        raise _broken(call, f"returned {_describe(result)} where torch has a list")
    if result.dtype != dtypes.onnx_type(spec.dtype):
        raise _broken(call, f"made a list of {result.dtype} where torch has {spec}")
    if result.producer() is not None and result.name is None:
        result.name = call.name if index is None else f"{call.name}_{index}"
    return result


def _bind_complex(call: Call, spec: TensorSpec | ScalarSpec, result: Any, index: int | None) -> Complex:
    if not isinstance(result, Complex):
        raise _broken(call, f"returned {_describe(result)} where torch has {spec}")
    for value, suffix in ((result.real, "real"), (result.imag, "imag")):
        _check(call, spec, value)
        _annotate(call, spec, value, suffix if index is None else f"{index}_{suffix}")
    return result


def placeholder(spec: Spec, name: str) -> Any:
    """A value that stands for a result that could not be made, so that the walk can go on."""
    if isinstance(spec, tuple):
        return tuple(placeholder(one, f"{name}_{index}") for index, one in enumerate(spec))
    if spec is None:
        return None
    if isinstance(spec, ListSpec):
        return ir.Value(name=name, type=ir.SequenceType(ir.TensorType(dtypes.onnx_type(spec.dtype))))
    made = []
    for suffix in ("_real", "_imag") if is_complex(spec) else ("",):
        value = ir.Value(name=name + suffix, type=ir.TensorType(_expected(spec)), shape=ir.Shape(_dims(spec)))
        value.meta["onnx_lab.number"] = isinstance(spec, ScalarSpec)
        made.append(value)
    return Complex(*made) if len(made) == 2 else made[0]


def _expected(spec: TensorSpec | ScalarSpec) -> ir.DataType:
    return dtypes.SCALAR_TYPE[spec.kind] if isinstance(spec, ScalarSpec) else dtypes.onnx_type(spec.dtype)


def _dims(spec: TensorSpec | ScalarSpec) -> list[int | str]:
    if isinstance(spec, ScalarSpec):
        return []
    return [dim.expr if isinstance(dim, SymDim) else dim for dim in spec.shape]


def _check(call: Call, spec: TensorSpec | ScalarSpec, value: ir.Value) -> None:
    expected = _expected(spec)
    if value.dtype is not None and value.dtype != expected:
        raise _broken(call, f"made {value.dtype.name.lower()} where torch has {spec}")
    if value.shape is not None and len(value.shape) != len(_dims(spec)):
        raise _broken(call, f"made rank {len(value.shape)} where torch has {spec}")
    if value.shape is not None:
        for have, want in zip(value.shape, _dims(spec), strict=True):
            if isinstance(have, int) and isinstance(want, int) and have != want:
                raise _broken(call, f"made shape {value.shape} where torch has {spec}")


def _annotate(call: Call, spec: TensorSpec | ScalarSpec, value: ir.Value, index: int | str | None) -> None:
    """Name the value after the call and give it the captured shape, unless it belongs to another call."""
    if isinstance(spec, ScalarSpec):
        value.meta["onnx_lab.number"] = True
        if spec.expr is not None:
            value.meta["onnx_lab.expr"] = spec.expr
    if value.producer() is None:
        return
    if value.type is None:
        value.type = ir.TensorType(_expected(spec))
    if value.name is None:
        value.name = call.name if index is None else f"{call.name}_{index}"
        value.shape = ir.Shape(_dims(spec))


def _describe(result: Any) -> str:
    return f"{len(result)} results" if isinstance(result, (list, tuple)) else type(result).__name__


def _broken(call: Call, what: str) -> InternalLoweringError:
    return InternalLoweringError(
        f"the lowering of {call.key} {what}",
        op=call.key,
        source=call.source,
        hint="this is a fault of the lowering; please report it with the call shown",
    )
