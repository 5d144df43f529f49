"""PyTorch's operator database as test cases: samples, one quick capture each, ONNX Runtime against eager."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime as ort
import torch
from torch.utils import _pytree as pytree

from onnx_lab import ops
from onnx_lab.capture.functionalize import drop_dead_calls, functionalize
from onnx_lab.capture.recorder import record
from onnx_lab.capture.stand_ins import StandIns
from onnx_lab.lower.lowerer import Lowerer
from onnx_lab.opsets import DEFAULT
from onnx_lab.passes import pipeline
from onnx_lab.program.spec import TensorSpec
from onnx_lab.saving.memory import model_proto

DTYPES = {
    name: getattr(torch, name)
    for name in (
        "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64".split()  # as ONNX has them
    )
}
# What they hold is not defined: shape and dtype only.
UNINITIALISED = {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}
HALF = (torch.float16, torch.bfloat16)
# Relative and absolute; integers and bools are exact.
TOLERANCE = {"float64": (1e-5, 1e-6), "float32": (1e-3, 1e-4), "float16": (1e-2, 1e-2), "bfloat16": (2e-2, 2e-2)}


@dataclass
class Sample:
    """One call of an operator: a function of its tensors, everything else baked in."""

    function: Callable[..., Any]
    tensors: tuple[torch.Tensor, ...]
    text: str


@functools.cache
def operators() -> dict[str, Any]:
    """OpInfo entries by ``name`` or ``name.variant``."""
    from torch.testing._internal import common_methods_invocations as database

    # The database seeds random operators inside the call; the plain call is what is exported.
    database.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)
    return {f"{op.name}.{op.variant_test_name}".rstrip("."): op for op in database.op_db}


def dtypes_of(name: str) -> list[str]:
    """The element types that the operator takes on the CPU, of those that the table tests."""
    return [text for text, dtype in DTYPES.items() if operators()[name].supports_dtype(dtype, "cpu")]


def samples(name: str, dtype: str, count: int) -> Iterator[Sample]:
    """``count`` samples spread over the operator's list; those that eager refuses are left out."""
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)
    op = operators()[name]
    found = list(op.sample_inputs("cpu", DTYPES[dtype], requires_grad=False))
    chosen = dict.fromkeys(round(index * (len(found) - 1) / max(1, count - 1)) for index in range(count))
    for index in chosen if found else ():
        yield _sample(op, found[index])


def _sample(op: Any, sample: Any) -> Sample:
    leaves, tree = pytree.tree_flatten(((sample.input, *sample.args), dict(sample.kwargs)))
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    baked = [None if place in places else leaf for place, leaf in enumerate(leaves)]

    def function(*tensors: torch.Tensor) -> list[torch.Tensor]:
        values = list(baked)
        for place, tensor in zip(places, tensors, strict=True):
            values[place] = tensor
        args, kwargs = pytree.tree_unflatten(values, tree)
        return [one for one in pytree.tree_leaves(op.op(*args, **kwargs)) if isinstance(one, torch.Tensor)]

    shown = [str(list(leaf.shape)) if isinstance(leaf, torch.Tensor) else repr(leaf) for leaf in leaves]
    return Sample(function, tuple(leaves[place].detach() for place in places), ", ".join(shown)[:120])


def outcome(
    name: str,
    sample: Sample,
    opset: int = DEFAULT,
    tolerance: tuple[float, float] | None = None,
    order: bool = True,
) -> str:
    """``pass``, ``skip: why`` (eager refuses, or no dense tensors), or the stage that failed and how.

    ``order=False``: which of several equal elements is named is not defined, so indices are not compared.
    """
    runs = []
    try:
        for seed in range(2):
            torch.manual_seed(seed)
            with torch.no_grad():
                runs.append(sample.function(*(tensor.clone() for tensor in sample.tensors)))
    except Exception as error:  # noqa: BLE001  whatever eager raises, there is nothing to compare with
        return f"skip: eager raises {type(error).__name__}"
    if not runs[0] or any(one.layout != torch.strided or one.is_nested for one in (*sample.tensors, *runs[0])):
        return "skip: no dense tensors"
    if any(one.dtype in (torch.complex32, torch.complex128) for one in (*sample.tensors, *runs[0])):
        return "skip: a complex type that the table does not test"
    try:
        model = lowered(sample, opset)
    except Exception as error:  # noqa: BLE001  the reason is the result
        return f"export: {type(error).__name__}: {str(error).splitlines()[0]}"
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        feeds = {one.name: _fed(tensor) for one, tensor in zip(session.get_inputs(), sample.tensors, strict=True)}
        actual = [_read(value) for value in session.run_with_ort_values(None, feeds)]
    except Exception as error:  # noqa: BLE001  the reason is the result
        return f"runtime: {str(error).splitlines()[0][:200]}"
    settled = name not in UNINITIALISED and all(map(_same, *runs))
    if not order:  # beside the values; a lone result of places has nothing else to compare
        kept = [place for place, one in enumerate(runs[0]) if place == 0 and len(runs[0]) > 1]
        actual, runs[0] = [actual[place] for place in kept], [runs[0][place] for place in kept]
    found = _compared(actual, runs[0], settled, tolerance)
    if found != "pass" and any(one.dtype in HALF for one in runs[0]):
        wide = _in_float32(sample, runs[0]) if order else None
        if wide is not None and _compared(actual, wide, settled, tolerance) == "pass":
            return "pass"
    return found


def _in_float32(sample: Sample, like: list[torch.Tensor]) -> list[torch.Tensor] | None:
    """Eager's result of the same numbers in float32, rounded once; None when eager refuses that.

    Eager's own result in half precision depends on the processor: some kernels round between their steps,
    and some processors have half-precision instructions. What is right by either is right.
    """
    tensors = [one.float() if one.dtype in HALF else one.clone() for one in sample.tensors]
    try:
        with torch.no_grad():
            wide = sample.function(*tensors)
    except (RuntimeError, TypeError, ValueError):
        return None
    return [one.to(half.dtype) for one, half in zip(wide, like, strict=True)]


def lowered(sample: Sample, opset: int) -> Any:
    """The ONNX model of one sample, by the recorder."""
    ops.load()
    specs = [TensorSpec(str(one.dtype).removeprefix("torch."), tuple(one.shape)) for one in sample.tensors]
    with StandIns():
        graph = record(sample.function, specs)
    functionalize(graph)
    drop_dead_calls(graph)
    model, _ = Lowerer(graph, opset).run()
    pipeline.run(model, check=True)
    return model_proto(model)


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and torch.equal(torch.nan_to_num(one), torch.nan_to_num(other))


def plain(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    tensor = tensor.detach().resolve_conj().resolve_neg()
    tensor = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).contiguous().numpy()


def _fed(tensor: torch.Tensor) -> ort.OrtValue:
    if tensor.dtype == torch.bfloat16:
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(tensor.contiguous().view(torch.int16).numpy(), 16)
    return ort.OrtValue.ortvalue_from_numpy(plain(tensor))


def _read(value: ort.OrtValue) -> tuple[str, np.ndarray[Any, Any]]:
    if "bfloat16" in value.data_type():
        return "bfloat16", torch.from_dlpack(value._get_c_value().to_dlpack()).float().numpy()
    return str(value.numpy().dtype), value.numpy()


def _compared(actual: list[Any], expected: list[torch.Tensor], values: bool, tolerance: Any) -> str:
    for index, ((kind, got), tensor) in enumerate(zip(actual, expected, strict=True)):
        want = plain(tensor)
        wanted = "bfloat16" if tensor.dtype == torch.bfloat16 else str(want.dtype)
        if got.shape != want.shape or kind != wanted:
            return f"mismatch: output {index} is {kind}{list(got.shape)}, eager has {wanted}{list(want.shape)}"
        if not values:
            continue
        if want.dtype.kind == "f":
            rtol, atol = tolerance or TOLERANCE[wanted]
            close = np.isclose(got.astype(np.float64), want.astype(np.float64), rtol, atol, equal_nan=True)
        else:
            close = np.equal(got, want)
        if not close.all():
            at = np.argwhere(~close)[0] if close.ndim else ()
            pair = f"{got[tuple(at)]} not {want[tuple(at)]}"
            return f"mismatch: output {index}: {int((~close).sum())} of {close.size} values, {pair}"
    return "pass"
