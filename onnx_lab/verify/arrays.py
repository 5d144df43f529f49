"""Tensors on their way into ONNX Runtime and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import torch

_BFLOAT16 = 16  # TensorProto.BFLOAT16
_NAMES = {"float": "float32", "double": "float64"}


def feed(value: Any) -> ort.OrtValue:
    """A torch tensor or number as the runtime takes it; complex as ``(*shape, 2)``. Shares memory if it can."""
    tensor = value if isinstance(value, torch.Tensor) else torch.tensor(value)
    tensor = tensor.detach().cpu()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    tensor = tensor.resolve_neg().contiguous()
    if tensor.dtype == torch.bfloat16:
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(tensor.view(torch.int16).numpy(), _BFLOAT16)
    return ort.OrtValue.ortvalue_from_numpy(tensor.numpy())


def feed_initializer(value: ir.Value) -> ort.OrtValue:
    """A weight as the runtime takes it, from its own memory."""
    tensor = value.const_value
    assert tensor is not None
    raw = getattr(tensor, "raw", None)
    if isinstance(raw, torch.Tensor):
        return feed(raw)
    if tensor.dtype == ir.DataType.BFLOAT16:
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(tensor.numpy().view(np.int16), _BFLOAT16)
    return ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(tensor.numpy()))


def plain(value: Any) -> np.ndarray[Any, Any]:
    """A torch tensor or number as an array to compare: bfloat16 widened, complex as ``(*shape, 2)``."""
    tensor = value if isinstance(value, torch.Tensor) else torch.tensor(value)
    tensor = tensor.detach().cpu()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    if tensor.dtype == torch.bfloat16 or "float8" in str(tensor.dtype):
        tensor = tensor.float()
    return tensor.resolve_neg().numpy()


def read(value: ort.OrtValue) -> tuple[np.ndarray[Any, Any], str]:
    """A runtime value as an array to compare, and its dtype by torch's name."""
    kind = value.data_type().removeprefix("tensor(").removesuffix(")")
    if kind == "bfloat16":
        return torch.from_dlpack(value._get_c_value().to_dlpack()).float().numpy(), kind
    return value.numpy(), _NAMES.get(kind, kind)


def dtype_name(value: Any) -> str:
    """torch's dtype name of what ``plain`` makes; a complex tensor compares as its real parts."""
    tensor = value if isinstance(value, torch.Tensor) else torch.tensor(value)
    name = str(tensor.dtype).removeprefix("torch.")
    return {"complex64": "float32", "complex128": "float64"}.get(name, name)
