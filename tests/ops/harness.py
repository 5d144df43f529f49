"""check(): export a function or module, run it in ONNX Runtime, compare with eager."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime as ort
import torch

import onnx_lab
from onnx_lab.passes.invariants import check_invariants


class Function(torch.nn.Module):
    """A plain function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def check(
    function: Callable[..., Any] | torch.nn.Module,
    *args: Any,
    dynamic: Any = None,
    again: Sequence[tuple[Any, ...]] = (),
    opset: int | None = None,
    kwargs: Mapping[str, Any] | None = None,
    rtol: float = 1e-4,
    atol: float = 1e-5,
) -> onnx_lab.ExportResult:
    """Export, run and compare values, shapes and dtypes; integers and bools must be equal.

    ``dynamic`` holds one dynamic_shapes entry per argument; ``again`` further argument tuples.
    """
    module = function if isinstance(function, torch.nn.Module) else Function(function)
    if dynamic is not None and not isinstance(function, torch.nn.Module):
        dynamic = (tuple(dynamic),)  # Function.forward takes *args
    result = onnx_lab.export(module, args, kwargs=kwargs, dynamic_shapes=dynamic, opset_version=opset)
    assert not check_invariants(result.model)
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(
        result.model_proto().SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    for given in (args, *again):
        with torch.no_grad():
            expected = _tensors(module(*_clone(given), **_clone(dict(kwargs or {}))))
        leaves = _tensors((given, dict(kwargs or {})))
        feeds = {
            one.name: ort.OrtValue.ortvalue_from_numpy(*_fed(leaf))
            if not isinstance(_fed(leaf)[0], ort.OrtValue)
            else _fed(leaf)[0]
            for one, leaf in zip(session.get_inputs(), leaves, strict=True)
        }
        actual = [_read(value) for value in session.run_with_ort_values(None, feeds)]
        assert len(actual) == len(expected)
        for got, want in zip(actual, expected, strict=True):
            _compare(got, want, rtol, atol)
    return result


def _compare(got: tuple[str, np.ndarray[Any, Any]], want: torch.Tensor, rtol: float, atol: float) -> None:
    kind, array = got
    reference = _plain(want)
    assert array.shape == reference.shape, f"shape {array.shape}, eager has {reference.shape}"
    expected_kind = "bfloat16" if want.dtype == torch.bfloat16 else str(reference.dtype)
    assert kind == expected_kind, f"dtype {kind}, eager has {expected_kind}"
    if reference.dtype.kind == "f":
        np.testing.assert_allclose(array, reference, rtol=rtol, atol=atol)
    else:
        np.testing.assert_array_equal(array, reference)


def _tensors(value: Any) -> list[torch.Tensor]:
    leaves = torch.utils._pytree.tree_leaves(value)
    return [
        leaf if isinstance(leaf, torch.Tensor) else torch.tensor(leaf)
        for leaf in leaves
        if isinstance(leaf, (torch.Tensor, torch.SymInt))
    ]


def _clone(value: Any) -> Any:
    return torch.utils._pytree.tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, value)


def _plain(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.float()
    return tensor.contiguous().numpy()


def _fed(tensor: torch.Tensor) -> tuple[Any, ...]:
    if tensor.dtype == torch.bfloat16:
        raw = tensor.contiguous().view(torch.int16).numpy()
        return (ort.OrtValue.ortvalue_from_numpy_with_onnx_type(raw, 16),)
    return (_plain(tensor),)


def _read(value: ort.OrtValue) -> tuple[str, np.ndarray[Any, Any]]:
    if "bfloat16" in value.data_type():
        return "bfloat16", torch.from_dlpack(value._get_c_value().to_dlpack()).float().numpy()
    array = value.numpy()
    return str(array.dtype), array
