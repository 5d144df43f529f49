"""Tensors on their way into ONNX Runtime and back, and the plain form in which both sides are compared."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import torch
from onnx_ir import tensor_adapters
from torch.utils.dlpack import from_dlpack

# numpy lacks these: the runtime takes them as integers of the same size with the ONNX type beside.
_BITS = {
    torch.bfloat16: torch.int16,
    torch.float8_e4m3fn: torch.uint8,
    torch.float8_e4m3fnuz: torch.uint8,
    torch.float8_e5m2: torch.uint8,
    torch.float8_e5m2fnuz: torch.uint8,
}
_ALIEN = ("bfloat16", "float8")


class Plain(NamedTuple):
    """A tensor as a numpy array to compare: narrow floats widened, complex as ``(*shape, 2)``.

    ``dtype`` is torch's name for the element type before widening; of a complex tensor, its parts'.
    """

    array: np.ndarray[Any, Any]
    dtype: str


def plain(value: Any) -> Plain:
    """The plain form of a torch tensor, a number, an array, an initializer or a value of the runtime.

    It may share the memory of ``value``, which must live as long.

    Raises:
        TypeError: it is no tensor and no number.
    """
    if isinstance(value, (torch.Tensor, bool, int, float, complex)):
        tensor = _real(value)
        name = str(tensor.dtype).removeprefix("torch.")
        return Plain((tensor.float() if tensor.dtype in _BITS else tensor).numpy(), name)
    if isinstance(value, (np.ndarray, np.generic)):
        return _of_array(np.asarray(value))
    if isinstance(value, ort.OrtValue):
        return _of_runtime(value)
    if isinstance(value, ir.TensorProtocol):
        raw = value.raw
        return plain(raw) if isinstance(raw, torch.Tensor) else _of_array(value.numpy())
    raise TypeError(f"{type(value).__name__} is no tensor")


def _real(value: Any) -> torch.Tensor:
    """A CPU tensor without lazy bits; complex ones as pairs."""
    # A Python float is a double, also where torch's default is another type.
    dtype = torch.float64 if isinstance(value, float) else None
    tensor = value if isinstance(value, torch.Tensor) else torch.tensor(value, dtype=dtype)
    tensor = tensor.detach().cpu()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    return tensor.resolve_neg()


def _of_array(array: np.ndarray[Any, Any]) -> Plain:
    name = array.dtype.name
    if array.dtype.kind == "c":
        parts = np.stack([array.real, array.imag], axis=-1)
        return Plain(parts, parts.dtype.name)
    return Plain(array.astype(np.float32) if name.startswith(_ALIEN) else array, name)


def _of_runtime(value: ort.OrtValue) -> Plain:
    kind = value.data_type().removeprefix("tensor(").removesuffix(")")
    if kind.startswith(_ALIEN):
        return plain(from_dlpack(value._get_c_value().to_dlpack()))
    array = value.numpy()
    return Plain(array, array.dtype.name)


def feed(value: Any) -> ort.OrtValue:
    """A torch tensor, an array or a number as the runtime takes it. Shares memory if it can."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufO":
        return ort.OrtValue.ortvalue_from_numpy(np.asarray(value, order="C"))
    if isinstance(value, np.ndarray):
        value = torch.from_numpy(value.copy()) if value.dtype.kind == "c" else _of_narrow(value)
    tensor = _real(value).contiguous()
    bits = _BITS.get(tensor.dtype)
    if bits is None:
        return ort.OrtValue.ortvalue_from_numpy(tensor.numpy())
    kind = tensor_adapters.from_torch_dtype(tensor.dtype)
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(tensor.view(bits).numpy(), int(kind))


def _of_narrow(array: np.ndarray[Any, Any]) -> torch.Tensor:
    """An array of a type that numpy has from elsewhere, as a tensor of the same bits."""
    wanted: torch.dtype = getattr(torch, array.dtype.name)
    carrier = np.int16 if array.dtype.itemsize == 2 else np.uint8
    return torch.from_numpy(array.copy().view(carrier)).view(wanted)


def feed_initializer(value: ir.Value) -> ort.OrtValue:
    """A weight as the runtime takes it, from its own memory."""
    tensor = value.const_value
    assert tensor is not None
    raw = getattr(tensor, "raw", None)
    return feed(raw if isinstance(raw, torch.Tensor) else tensor.numpy())
