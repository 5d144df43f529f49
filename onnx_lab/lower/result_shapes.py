"""Shapes of values inside a lowering, for the operators where they follow at once from the operands.

A captured call's own results have their shapes from the capture; this table serves the nodes in
between, so that a lowering can ask for the rank of what it just made. None means "not known here".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir as ir

Shape = ir.Shape
Operands = list[ir.Value | None]


def result_shape(op_type: str, values: Operands, attributes: dict[str, Any]) -> Shape | None:
    """Shape of the single result of an operator, or None."""
    rule = _RULES.get(op_type)
    return rule(values, attributes) if rule is not None else None


def constant_ints(value: ir.Value | None) -> list[int] | None:
    """The content of a constant 0-D or 1-D INT64 value."""
    if value is None or value.const_value is None or value.dtype != ir.DataType.INT64:
        return None
    if len(value.const_value.shape) > 1:
        return None
    return [int(item) for item in value.const_value.numpy().reshape(-1)]


def broadcast(shapes: list[Shape | None]) -> Shape | None:
    """Numpy broadcasting; a symbolic dim wins over 1, a fixed one over a symbolic one."""
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes):
        return None
    rank = max((len(shape) for shape in known), default=0)
    dims: list[Any] = []
    for axis in range(-rank, 0):
        found: Any = 1
        for shape in known:
            if -axis > len(shape) or shape[axis] == 1:
                continue
            dim = shape[axis]
            if isinstance(dim, int) or found == 1:
                found = dim
            elif not isinstance(found, int) and found != dim:
                found = None
        dims.append(found)
    return Shape(dims)


def _same(values: Operands, attributes: dict[str, Any]) -> Shape | None:
    return values[0].shape if values[0] is not None else None


def _broadcast(values: Operands, attributes: dict[str, Any]) -> Shape | None:
    return broadcast([value.shape if value is not None else None for value in values])


def _transpose(values: Operands, attributes: dict[str, Any]) -> Shape | None:
    shape = _same(values, attributes)
    if shape is None:
        return None
    perm = attributes.get("perm", range(len(shape) - 1, -1, -1))
    return Shape([shape[axis] for axis in perm])


def _unsqueeze(values: Operands, attributes: dict[str, Any]) -> Shape | None:
    shape, axes = _same(values, attributes), constant_ints(values[1])
    if shape is None or axes is None:
        return None
    rank = len(shape) + len(axes)
    placed = {axis % rank for axis in axes}
    rest = iter(shape)
    return Shape([1 if axis in placed else next(rest) for axis in range(rank)])


def _squeeze(values: Operands, attributes: dict[str, Any]) -> Shape | None:
    shape, axes = _same(values, attributes), constant_ints(values[1]) if len(values) > 1 else None
    if shape is None or axes is None:
        return None
    gone = {axis % len(shape) for axis in axes}
    return Shape([dim for axis, dim in enumerate(shape) if axis not in gone])


def _reduce(values: Operands, attributes: dict[str, Any]) -> Shape | None:
    shape = _same(values, attributes)
    axes = constant_ints(values[1]) if len(values) > 1 and values[1] is not None else None
    if shape is None or (axes is None and len(values) > 1 and values[1] is not None):
        return None
    gone = {axis % len(shape) for axis in axes} if axes else set(range(len(shape)))
    if attributes.get("noop_with_empty_axes") and not axes:
        gone = set()
    keep = attributes.get("keepdims", 1)
    return Shape([1 if axis in gone else dim for axis, dim in enumerate(shape) if keep or axis not in gone])


def _reshape(values: Operands, attributes: dict[str, Any]) -> Shape | None:
    target = constant_ints(values[1])
    if target is None:
        length = values[1].shape if values[1] is not None else None
        return Shape([None] * length[0]) if length is not None and isinstance(length[0], int) else None
    source = _same(values, attributes)
    dims: list[Any] = [None if size == -1 else size for size in target]
    if not attributes.get("allowzero"):
        for axis, size in enumerate(target):
            if size == 0:
                dims[axis] = source[axis] if source is not None and axis < len(source) else None
    return Shape(dims)


def _expand(values: Operands, attributes: dict[str, Any]) -> Shape | None:
    target, source = constant_ints(values[1]), _same(values, attributes)
    return broadcast([source, Shape(target)]) if target is not None else None


def _matmul(values: Operands, attributes: dict[str, Any]) -> Shape | None:
    a, b = (value.shape if value is not None else None for value in values)
    if a is None or b is None or not a or not b:
        return None
    batch = broadcast([Shape(a[:-2]), Shape(b[:-2])])
    # A vector is a row on the left, a column on the right; that axis is gone from the result.
    ends = [*(a[-2:-1] if len(a) > 1 else []), *(b[-1:] if len(b) > 1 else [])]
    return None if batch is None else Shape([*batch, *ends])


def _gather(values: Operands, attributes: dict[str, Any]) -> Shape | None:
    data, index = (value.shape if value is not None else None for value in values)
    if data is None or index is None:
        return None
    axis = attributes.get("axis", 0) % len(data)
    return Shape([*data[:axis], *index, *data[axis + 1 :]])


def _concat(values: Operands, attributes: dict[str, Any]) -> Shape | None:
    shapes = [value.shape for value in values if value is not None and value.shape is not None]
    if len(shapes) < len(values):
        return None
    axis = attributes["axis"] % len(shapes[0])
    sizes = [size for shape in shapes if isinstance(size := shape[axis], int)]
    dims: list[Any] = list(shapes[0])
    dims[axis] = sum(sizes) if len(sizes) == len(shapes) else None
    return Shape(dims)


def _shape(values: Operands, attributes: dict[str, Any]) -> Shape | None:
    source = _same(values, attributes)
    if source is None:
        return None
    rank = len(source)
    start, end, _ = slice(attributes.get("start", 0), attributes.get("end", rank)).indices(rank)
    return Shape([max(0, end - start)])


def _slice(values: Operands, attributes: dict[str, Any]) -> Shape | None:
    source = _same(values, attributes)
    parts = [constant_ints(value) for value in values[1:]]
    if source is None or len(parts) < 3 or parts[2] is None:
        return None
    dims: list[Any] = list(source)
    for number, axis in enumerate(parts[2]):
        dims[axis] = _length(dims[axis], *(part[number] if part is not None else None for part in _padded(parts)))
    return Shape(dims)


def _pad(values: Operands, attributes: dict[str, Any]) -> Shape | None:
    source, pads = _same(values, attributes), constant_ints(values[1])
    if source is None:
        return None
    axes = constant_ints(values[3]) if len(values) > 3 and values[3] is not None else list(range(len(source)))
    dims: list[Any] = list(source)
    for number, axis in enumerate(axes if axes is not None else range(len(source))):
        known = pads is not None and axes is not None and isinstance(dims[axis], int)
        dims[axis] = dims[axis] + pads[number] + pads[len(pads) // 2 + number] if known and pads else None
    return Shape(dims)


def _range(values: Operands, attributes: dict[str, Any]) -> Shape | None:
    parts = [constant_ints(value) for value in values]
    if all(part is not None for part in parts):
        start, limit, delta = (part[0] for part in parts if part is not None)
        return Shape([len(range(start, limit, delta))])
    return Shape([None])


def _arg(values: Operands, attributes: dict[str, Any]) -> Shape | None:
    shape = _same(values, attributes)
    if shape is None:
        return None
    gone, keep = attributes.get("axis", 0) % len(shape), attributes.get("keepdims", 1)
    return Shape([1 if axis == gone else dim for axis, dim in enumerate(shape) if keep or axis != gone])


def _tile(values: Operands, attributes: dict[str, Any]) -> Shape | None:
    source, repeats = _same(values, attributes), constant_ints(values[1])
    if source is None or repeats is None:
        return Shape([None] * len(source)) if source is not None else None
    pairs = zip(source, repeats, strict=True)
    return Shape([dim * count if isinstance(dim, int) else dim if count == 1 else None for dim, count in pairs])


def _padded(parts: list[list[int] | None]) -> list[list[int] | None]:
    """Starts, ends and steps; without steps they are all 1."""
    starts, ends, axes = parts[:3]
    return [starts, ends, parts[3] if len(parts) > 3 else [1] * len(axes or ())]


def _length(dim: Any, start: int | None, end: int | None, step: int | None) -> Any:
    if not isinstance(dim, int) or start is None or end is None or step is None:
        return None
    if step > 0:
        return len(range(*slice(start, end, step).indices(dim)))
    # ONNX clamps an end far below zero to "before the first"; Python's slice needs None for that.
    return len(range(*slice(start, None if end <= -dim - 1 else end, step).indices(dim)))


def split_shapes(values: Operands, attributes: dict[str, Any], count: int) -> list[Shape | None]:
    """Shapes of Split's results."""
    source = _same(values, attributes)
    if source is None:
        return [None] * count
    axis = attributes.get("axis", 0) % len(source)
    sizes = constant_ints(values[1]) if len(values) > 1 else None
    if sizes is None and isinstance(source[axis], int) and source[axis] % count == 0:
        sizes = [source[axis] // count] * count
    return [Shape([*source[:axis], sizes[i] if sizes else None, *source[axis + 1 :]]) for i in range(count)]


def _second(values: Operands, attributes: dict[str, Any]) -> Shape | None:
    return values[1].shape if values[1] is not None else None


_UNARY = (
    "Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Cast CastLike Ceil Celu Cos Cosh CumSum Elu Erf Exp Floor Gelu "
    "HardSigmoid HardSwish Hardmax Identity IsInf IsNaN LeakyRelu Log LogSoftmax Mish Neg Not PRelu QuantizeLinear "
    "DequantizeLinear Reciprocal Relu Round ScatterElements ScatterND Selu Shrink Sigmoid Sign Sin Sinh Softmax "
    "Softplus Softsign Sqrt Swish Tan Tanh ThresholdedRelu Trilu LayerNormalization RMSNormalization "
    "GroupNormalization InstanceNormalization BatchNormalization ReverseSequence LpNormalization Clip CumProd EyeLike"
).split()
_BINARY = (
    "Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual Max Mean Min "
    "Mod Mul Or Pow Sub Sum Where Xor"
).split()
_REDUCE = (
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare"
).split()
_RULES: dict[str, Callable[[Operands, dict[str, Any]], Shape | None]] = {
    **dict.fromkeys(_UNARY, _same),
    **dict.fromkeys(_BINARY, _broadcast),
    **dict.fromkeys(_REDUCE, _reduce),
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Reshape": _reshape,
    "Expand": _expand,
    "MatMul": _matmul,
    "Gather": _gather,
    "GatherElements": _second,
    "Concat": _concat,
    "Slice": _slice,
    "Shape": _shape,
    "Pad": _pad,
    "Range": _range,
    "Tile": _tile,
    "ArgMax": _arg,
    "ArgMin": _arg,
    "Size": lambda values, attributes: Shape([]),
}
