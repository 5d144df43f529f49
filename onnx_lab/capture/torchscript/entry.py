"""The way into this front end: capture="script" and "trace", and which of them would take a model."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from onnx_lab.capture.captured import Capture
from onnx_lab.capture.failure import reason
from onnx_lab.capture.kept import attributes_kept
from onnx_lab.capture.modes import training_mode
from onnx_lab.capture.torchscript.front_end import capture_script, is_script, scripted
from onnx_lab.capture.torchscript.kept import script_mode
from onnx_lab.capture.torchscript.trace import capture_trace
from onnx_lab.errors import OnnxLabError
from onnx_lab.program.report import Report, Try


def capture_torchscript(
    model: Any, args: Sequence[Any], kwargs: Mapping[str, Any], report: Report, *, strategy: str, training: str,
    state: str, **options: Any,
) -> Capture:  # fmt: skip
    """The capture of a scripted or traced program, or of a module that is to be scripted or traced.

    Raises:
        InputError: the inputs do not fit.
        CaptureError: TorchScript does not take the module, or no graph can hold what the program does.
    """
    name = "trace" if strategy == "trace" else "script"
    one = Try(name, 0.0)
    report.tries.append(one)
    start = time.perf_counter()
    try:
        if is_script(model):
            with script_mode(model, training, report):
                return capture_script(
                    model, args, kwargs, model=model, front_end=name, training=training, state=state, notes=[],
                    **options,
                )  # fmt: skip
        with training_mode(model, training, report), attributes_kept(model):
            notes: list[str] = []
            if name == "trace":
                return capture_trace(model, args, kwargs, report, training=training, notes=notes, **options)
            return capture_script(
                scripted(model, notes), args, kwargs, model=model, front_end=name, training=training, state=state,
                notes=notes, **options,
            )  # fmt: skip
    except OnnxLabError as error:
        one.error, one.reason = error, reason(error)
        raise
    finally:
        one.seconds = time.perf_counter() - start


def who_would_take(model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], **options: Any) -> str:
    """A sentence on whether capture="script" or "trace" would take a model that torch.export refuses."""
    common: dict[str, Any] = {"training": "preserve", "state": "frozen", "input_names": None, "output_names": None}
    found = []
    for strategy in ("script", "trace"):
        report = Report()
        try:
            capture_torchscript(model, args, kwargs, report, strategy=strategy, **common, **options)
        except OnnxLabError as error:
            place = f" at {error.source.location}" if error.source is not None and error.source.location else ""
            found.append(f"capture={strategy!r} does not take it{place}: {error.seen or error.what}")
            continue
        if strategy == "script":
            return "capture='script' takes it as it is"
        lines = ", ".join(dict.fromkeys(one.source.location for one in report.frozen if one.source.location))
        found.append(f"capture='trace' takes it, but freezes {lines or 'what the example decides'}")
    return "; ".join(found)
