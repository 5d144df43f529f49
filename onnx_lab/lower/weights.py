"""Initializers: the module's own tensors, never copied, and small constants, each made once."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from onnx_ir import tensor_adapters

from onnx_lab.lower.dtypes import COMPLEX_NAMES
from onnx_lab.program.graph import Weight

_PYTHON_TYPES = {bool: ir.DataType.BOOL, int: ir.DataType.INT64, float: ir.DataType.FLOAT}


class Constants:
    """Constants of one model by content: equal ones are one initializer."""

    def __init__(self) -> None:
        self.values: list[ir.Value] = []
        self._by_content: dict[Any, ir.Value] = {}
        self._arrays: dict[int, np.ndarray[Any, Any]] = {}

    def get(self, content: Any, dtype: ir.DataType | None = None) -> ir.Value:
        """The initializer for a number, a nested list or an array.

        Without ``dtype`` Python ints are INT64, floats FLOAT, bools BOOL; arrays keep their own type.
        """
        if dtype is None and not isinstance(content, np.ndarray):
            dtype = _type_of(content)
        array = content if isinstance(content, np.ndarray) else np.asarray(content)
        wanted = dtype.numpy() if dtype is not None else array.dtype
        if array.dtype != wanted:
            array = array.astype(wanted)
        dtype = dtype or ir.DataType.from_numpy(array.dtype)
        key = (dtype, array.shape, array.tobytes())
        found = self._by_content.get(key)
        if found is None:
            found = self._make(array, dtype)
            self._by_content[key] = found
        return found

    def array(self, value: ir.Value) -> np.ndarray[Any, Any] | None:
        """The content of a constant made here, else None."""
        return self._arrays.get(id(value))

    def _make(self, array: np.ndarray[Any, Any], dtype: ir.DataType) -> ir.Value:
        name = f"const_{len(self.values)}"
        tensor = ir.Tensor(array, dtype=dtype, name=name)
        value = ir.Value(name=name, shape=ir.Shape(array.shape), type=ir.TensorType(dtype), const_value=tensor)
        self.values.append(value)
        self._arrays[id(value)] = array
        return value


def _type_of(content: Any) -> ir.DataType:
    leaf = content
    while isinstance(leaf, (list, tuple)):
        # An empty list is a list of ints: shapes and axes are all that can be empty.
        if not leaf:
            return ir.DataType.INT64
        if any(isinstance(item, float) for item in leaf):
            return ir.DataType.FLOAT
        leaf = leaf[0]
    return _PYTHON_TYPES.get(type(leaf), ir.DataType.FLOAT)


class Weights:
    """Initializers of a captured graph's weights, made when first used; tied weights are one."""

    def __init__(self) -> None:
        self.values: list[ir.Value] = []
        self._by_memory: dict[Any, ir.Value] = {}

    def get(self, weight: Weight) -> ir.Value:
        tensor = weight.tensor
        key = _memory_key(tensor)
        found = self._by_memory.get(key)
        if found is None:
            found = self._make(weight)
            self._by_memory[key] = found
        return found

    def _make(self, weight: Weight) -> ir.Value:
        name, tensor = weight.target or weight.name, weight.tensor.detach()
        if weight.spec.dtype in COMPLEX_NAMES:
            tensor = _as_pairs(tensor)
        adapter = tensor_adapters.TorchTensor(tensor, name=name)
        value = ir.Value(name=name, shape=adapter.shape, type=ir.TensorType(adapter.dtype), const_value=adapter)
        self.values.append(value)
        return value


def _as_pairs(tensor: Any) -> Any:
    """A complex tensor as a real one with a last axis (real, imaginary), without importing torch."""
    resolved = tensor.resolve_conj()
    return resolved.reshape(-1).view(resolved.real.dtype).reshape(*resolved.shape, 2)


def _memory_key(tensor: Any) -> Any:
    """Equal for tensors that are the same memory seen in the same way."""
    if tensor.is_meta or tensor.numel() == 0:
        return id(tensor)
    return (tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride()), str(tensor.dtype))
