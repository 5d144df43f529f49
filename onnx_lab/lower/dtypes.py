"""Torch dtype names, ONNX element types, and torch's type promotion between them."""

from __future__ import annotations

import onnx_ir as ir

from onnx_lab.errors import UnsupportedCaseError

_D = ir.DataType

ONNX_TYPE: dict[str, ir.DataType] = {
    "bool": _D.BOOL,
    "uint8": _D.UINT8,
    "uint16": _D.UINT16,
    "uint32": _D.UINT32,
    "uint64": _D.UINT64,
    "int8": _D.INT8,
    "int16": _D.INT16,
    "int32": _D.INT32,
    "int64": _D.INT64,
    "float16": _D.FLOAT16,
    "bfloat16": _D.BFLOAT16,
    "float32": _D.FLOAT,
    "float64": _D.DOUBLE,
    "float8_e4m3fn": _D.FLOAT8E4M3FN,
    "float8_e4m3fnuz": _D.FLOAT8E4M3FNUZ,
    "float8_e5m2": _D.FLOAT8E5M2,
    "float8_e5m2fnuz": _D.FLOAT8E5M2FNUZ,
    # A complex tensor is a real one with a last axis (real, imaginary).
    "complex64": _D.FLOAT,
    "complex128": _D.DOUBLE,
}
COMPLEX_NAMES = frozenset({"complex64", "complex128"})
# Python's float is a double: int(n * 0.29) must be what Python makes of it.
SCALAR_TYPE = {"int": _D.INT64, "float": _D.DOUBLE, "bool": _D.BOOL}

_CATEGORY = {_D.BOOL: 0}
_CATEGORY |= dict.fromkeys((_D.UINT8, _D.UINT16, _D.UINT32, _D.UINT64, _D.INT8, _D.INT16, _D.INT32, _D.INT64), 1)
_CATEGORY |= dict.fromkeys((_D.FLOAT16, _D.BFLOAT16, _D.FLOAT, _D.DOUBLE), 2)
_RANK = {t: i for i, t in enumerate((_D.BOOL, _D.UINT8, _D.INT8, _D.INT16, _D.INT32, _D.INT64))}
_FLOAT_RANK = {t: i for i, t in enumerate((_D.FLOAT16, _D.BFLOAT16, _D.FLOAT, _D.DOUBLE))}


def type_of_number(value: object) -> ir.DataType | None:
    """The type of a Python number that is a value of its own; None for anything else."""
    return SCALAR_TYPE.get(type(value).__name__)


def category(dtype: ir.DataType) -> int:
    """0 bool, 1 integer, 2 floating point: the order in which torch promotes."""
    return _CATEGORY.get(dtype, 2)


def scalar_category(value: bool | float) -> int:
    return 0 if isinstance(value, bool) else 1 if isinstance(value, int) else 2


def promote_types(a: ir.DataType, b: ir.DataType) -> ir.DataType:
    """``torch.promote_types`` (c10/core/ScalarType.cpp) on ONNX element types."""
    if a == b:
        return a
    if category(a) != category(b):
        return a if category(a) > category(b) else b
    if category(a) == 2:
        if {a, b} == {_D.FLOAT16, _D.BFLOAT16}:
            return _D.FLOAT
        return max(a, b, key=lambda t: _FLOAT_RANK.get(t, 0))
    if _D.UINT8 in (a, b):
        other = b if a == _D.UINT8 else a
        return _D.INT16 if other == _D.INT8 else other
    return max(a, b, key=lambda t: _RANK.get(t, 0))


def onnx_type(name: str) -> ir.DataType:
    """The element type of a torch dtype, by its name.

    Raises:
        UnsupportedCaseError: ONNX has no such type.
    """
    found = ONNX_TYPE.get(name)
    if found is None:
        raise UnsupportedCaseError(f"ONNX has no torch.{name}", hint="cast it to a type that ONNX has")
    return found
