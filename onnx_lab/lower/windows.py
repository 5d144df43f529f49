"""Convolution and average pooling spelled with slices and products, for element types without a kernel for them.

A window's element is a strided slice of the whole input; the slices side by side are the columns of one
matrix product (im2col: Chellapilla et al., 2006). Spatial sizes may be dynamic.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from onnx_lab.errors import UnsupportedCaseError

if TYPE_CHECKING:
    from onnx_lab.lower.builder import Builder

Value = ir.Value
_END = int(np.iinfo(np.int64).max)


def _fixed(op: Builder, w: Value) -> list[int]:
    """Sizes of a kernel."""
    sizes = [size for size in w.shape or () if isinstance(size, int)]
    if not sizes or len(sizes) < len(w.shape or ()):
        what = f"a convolution in {w.dtype} needs a kernel of fixed size"
        raise UnsupportedCaseError(what, op=op.call.key, source=op.call.source, hint="keep the kernel's axes static")
    return sizes


def _zero(op: Builder, x: Value) -> Value:
    return op.constants.get(0, x.dtype)


def _padded(op: Builder, x: Value, pads: Sequence[int], fill: Value) -> Value:
    """Spatial axes padded (or, by negative numbers, cut); ``pads`` as ONNX has them."""
    if not any(pads):
        return x
    spatial = len(pads) // 2
    made: Value = op.Pad(x, [0, 0, *pads[:spatial], 0, 0, *pads[spatial:]], fill)
    return made


def _slices(
    op: Builder, x: Value, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> list[Value]:
    """For each place in the window the elements there, of all windows: (N, C, *out)."""
    axes = list(range(2, 2 + len(kernel)))
    made = []
    for place in itertools.product(*(range(size) for size in kernel)):
        starts = [one * step for one, step in zip(place, dilations, strict=True)]
        rest = [(size - 1 - one) * step for one, size, step in zip(place, kernel, dilations, strict=True)]
        made.append(op.Slice(x, starts, [-one if one else _END for one in rest], axes, list(strides)))
    return made


def conv(
    op: Builder,
    x: Value,
    w: Value,
    b: Value | None = None,
    *,
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    group: int = 1,
) -> Value:
    """Conv: x (N, C, *S), w (O, C / group, *kernel)."""
    shape = _fixed(op, w)
    out, depth, kernel = shape[0], shape[1], shape[2:]
    ones = [1] * len(kernel)
    x = _padded(op, x, pads or [0, 0] * len(kernel), _zero(op, x))
    columns = _slices(op, x, kernel, strides or ones, dilations or ones)
    rows = depth * math.prod(kernel)
    stacked = op.Concat(*(op.Unsqueeze(one, [2]) for one in columns), axis=2)
    matrix = op.Reshape(stacked, [0, group, rows, -1])
    product = op.MatMul(op.Reshape(w, [group, out // group, rows]), matrix)
    sizes = op.Shape(columns[0], start=2)
    made: Value = op.Reshape(product, op.Concat(op.constants.get([0, out]), sizes, axis=0))
    return made if b is None else op.Add(made, op.Unsqueeze(b, list(range(1, 1 + len(kernel)))))


def _spread(op: Builder, x: Value, axis: int, step: int) -> Value:
    """``step`` − 1 zeros between neighbours of an axis."""
    rank = len(x.shape or ())
    pads = [0] * (2 * (rank + 1))
    pads[rank + 1 + axis + 1] = step - 1
    apart = op.Pad(op.Unsqueeze(x, [axis + 1]), pads, _zero(op, x))
    parts = [op.Shape(x, start=0, end=axis), op.constants.get([-1])]
    parts += [op.Shape(x, start=axis + 1)] if axis + 1 < rank else []
    made: Value = op.Slice(op.Reshape(apart, op.Concat(*parts, axis=0)), [0], [1 - step], [axis])
    made.shape = ir.Shape([None] * rank)
    return made


def conv_transpose(
    op: Builder,
    x: Value,
    w: Value,
    b: Value | None = None,
    *,
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    output_padding: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    group: int = 1,
) -> Value:
    """ConvTranspose: the input spread by the stride, convolved with the kernel turned round."""
    shape = _fixed(op, w)
    depth, out, kernel = shape[0], shape[1], shape[2:]
    spatial, ones = len(kernel), [1] * len(kernel)
    dilations, pads, extra = dilations or ones, pads or [0, 0] * spatial, output_padding or [0] * spatial
    for axis, step in enumerate(strides or ones):
        x = x if step == 1 else _spread(op, x, axis + 2, step)
    reach = [(size - 1) * step for size, step in zip(kernel, dilations, strict=True)]
    begin = [whole - pad for whole, pad in zip(reach, pads[:spatial], strict=True)]
    end = [whole - pad + more for whole, pad, more in zip(reach, pads[spatial:], extra, strict=True)]
    axes = list(range(2, 2 + spatial))
    turned = op.Slice(w, [-1] * spatial, [-_END] * spatial, axes, [-1] * spatial)
    grouped = op.Reshape(turned, [group, depth // group, out, *kernel])
    order = [0, 2, 1, *range(3, 3 + spatial)]
    weight = op.Reshape(op.Transpose(grouped, perm=order), [group * out, depth // group, *kernel])
    return conv(op, x, weight, b, pads=[*begin, *end], dilations=dilations, group=group)


def average_pool(
    op: Builder,
    x: Value,
    *,
    kernel_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    ceil_mode: int = 0,
    count_include_pad: int = 0,
) -> Value:
    """AveragePool: sums of windows over the number of elements in each."""
    spatial = len(kernel_shape)
    ones = [1] * spatial
    strides, pads, dilations = strides or ones, list(pads or [0, 0] * spatial), dilations or ones
    alone = op.constants.get([1, 1])
    mask = op.Expand(op.constants.get(1, x.dtype), op.Concat(alone, op.Shape(x, start=2), axis=0))
    mask.shape = ir.Shape([1, 1, *[None] * spatial])
    mask = _padded(op, mask, pads, op.constants.get(count_include_pad, x.dtype))
    rest = _beyond(op, x, kernel_shape, strides, pads, dilations) if ceil_mode else [0] * spatial
    mask = _padded(op, mask, [*[0] * spatial, *rest], _zero(op, x))
    wide = _padded(op, x, [*pads[:spatial], *(a + b for a, b in zip(pads[spatial:], rest, strict=True))], _zero(op, x))
    total, count = (_summed(op, _slices(op, one, kernel_shape, strides, dilations)) for one in (wide, mask))
    made: Value = op.Div(total, count)
    return made


def _summed(op: Builder, values: list[Value]) -> Value:
    total = values[0]
    for one in values[1:]:
        total = op.Add(total, one)
    return total


def _beyond(
    op: Builder, x: Value, kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int], dilations: Any
) -> list[int]:
    """Elements that the last window lacks when sizes are rounded up; it must start before the end's padding."""
    found = []
    for axis, size in enumerate((x.shape or ())[2:]):
        if not isinstance(size, int):
            what = "average pooling in this element type rounds up (ceil_mode) fixed sizes only"
            raise UnsupportedCaseError(what, op=op.call.key, source=op.call.source, hint="keep the axis static")
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        whole = size + pads[axis] + pads[len(kernel) + axis]
        count = -(-(whole - reach) // strides[axis]) + 1
        if (count - 1) * strides[axis] >= size + pads[axis]:
            count -= 1
        found.append(max(0, (count - 1) * strides[axis] + reach - whole))
    return found


def global_average_pool(op: Builder, x: Value) -> Value:
    made: Value = op.ReduceMean(x, list(range(2, len(x.shape or ()))), keepdims=1)
    return made
