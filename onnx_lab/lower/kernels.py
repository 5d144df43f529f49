"""Element types that ONNX Runtime computes with on the CPU, and exact detours for those that it does not.

The table was read from the runtime itself; operators that are not in it (those that the runtime expands
into others) are left alone.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path

import onnx_ir as ir

_T = ir.DataType
# Types that hold every number of the first, best one first. Nothing holds all doubles or all 64-bit integers
# but themselves.
_WIDER: dict[ir.DataType, tuple[ir.DataType, ...]] = {
    _T.BOOL: (_T.UINT8, _T.INT8, _T.INT32, _T.INT64),
    _T.INT8: (_T.INT32, _T.INT64, _T.INT16),
    _T.UINT8: (_T.INT32, _T.INT64, _T.UINT32),
    _T.INT16: (_T.INT32, _T.INT64),
    _T.UINT16: (_T.INT32, _T.INT64, _T.UINT32),
    _T.INT32: (_T.INT64,),
    _T.UINT32: (_T.INT64, _T.UINT64),
    _T.FLOAT16: (_T.FLOAT,),
    _T.BFLOAT16: (_T.FLOAT,),
}
# Their element type means more than the numbers that it holds.
_LEFT_ALONE = frozenset(
    {"Cast", "CastLike", "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "BitShift", "BitCast"}
    | {"If", "Loop", "Scan", "ConstantOfShape", "EyeLike", "Bernoulli", "RandomNormalLike", "RandomUniformLike"}
)


@functools.cache
def _operators() -> dict[str, list[list[object]]]:
    text = (Path(__file__).parent / "runtime_kernels.json").read_text()
    operators: dict[str, list[list[object]]] = json.loads(text)["operators"]
    return operators


@functools.cache
def kernel_types(op_type: str, opset: int, variable: str) -> frozenset[ir.DataType] | None:
    """Element types of the kernels for one type variable; None when the table does not tell."""
    for first, last, constraints in _operators().get(op_type, ()):
        assert isinstance(first, int)
        assert isinstance(constraints, dict)
        if first <= opset and (last is None or (isinstance(last, int) and opset <= last)) and variable in constraints:
            known = ir.DataType.__members__
            return frozenset(known[name.upper()] for name in constraints[variable] if name.upper() in known)
    return None


@functools.cache
def detour(
    op_type: str,
    opset: int,
    variable: str,
    dtype: ir.DataType,
    allowed: frozenset[ir.DataType] | None,
    reduces: bool = False,
) -> ir.DataType | None:
    """A type in which the operator gives the same numbers, where ``dtype`` has no kernel or is not allowed.

    Args:
        op_type, opset, variable: the operator and the type variable of its schema.
        allowed: the types that the schema allows.
        reduces: a scatter that combines elements; its kernels take fewer types than they say.

    Returns:
        None when no detour is needed, or when there is none.
    """
    if op_type in _LEFT_ALONE:
        return None
    kernels = kernel_types(op_type, opset, variable)
    if allowed is None or dtype in allowed:
        # The runtime inserts its own casts for float16, not for bfloat16.
        known = dtype == _T.FLOAT16 or dtype in kernels if kernels is not None else dtype != _T.BFLOAT16
        if known and not (reduces and dtype in (_T.BOOL, _T.FLOAT16, _T.BFLOAT16)):
            return None
    for wide in _WIDER.get(dtype, ()):
        if reduces and wide.itemsize == 1:
            continue  # 256 times True would be 0
        if (kernels is None or wide in kernels) and (allowed is None or wide in allowed):
            return wide
    return None
