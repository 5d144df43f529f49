"""Export a random program and compare it with eager, at the example's sizes and at others."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime as ort

import onnx_lab
from tests.ops.harness import Function
from tests.programs.generator import Program

# What a program may meet: a clear refusal is no fault, but it is counted.
REFUSALS = (onnx_lab.CaptureError, onnx_lab.UnsupportedCaseError, onnx_lab.UnsupportedOperatorsError)


def outcome(program: Program) -> str:
    """``equal``; ``refused: ...`` with the reason; or what is wrong."""
    module = Function(program.function())
    given = [value.clone() for value in program.inputs.values()]
    dynamic: Any = None
    if program.dynamic:
        dynamic = (tuple({0: "rows"} if value.dim() else None for value in given),)
    try:
        result = onnx_lab.export(module, tuple(given), dynamic_shapes=dynamic)
    except REFUSALS as error:
        if not error.hint:
            return f"unclear: {error}"
        return f"refused: {error.what}"
    except onnx_lab.OnnxLabError as error:
        return f"unclear: {error}"
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(
        result.model_proto().SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    sets = [list(program.inputs.values())]
    if program.dynamic:
        sets.append(program.other_inputs())
    for number, values in enumerate(sets):
        try:
            expected = module(*(value.clone() for value in values))
        except (RuntimeError, IndexError):
            if number == 0:
                raise
            continue  # eager takes the program at the example's size only
        feeds = {one.name: value.numpy() for one, value in zip(session.get_inputs(), values, strict=True)}
        actual = session.run(None, feeds)
        for index, (got, want) in enumerate(zip(actual, expected, strict=True)):
            if (trouble := _difference(got, want.numpy())) is not None:
                return f"output {index}: {trouble}"
    return "equal"


def _difference(got: Any, want: Any) -> str | None:
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    if want.dtype.kind == "f":
        close = np.isclose(got, want, rtol=1e-3, atol=1e-4, equal_nan=True)
        return (
            None
            if close.all()
            else f"{int((~close).sum())} of {close.size} differ: {got[~close][:3]}, {want[~close][:3]}"
        )
    return None if np.array_equal(got, want) else f"{got.reshape(-1)[:5]} instead of {want.reshape(-1)[:5]}"
