"""export(): capture, functionalize, lower, tidy, verify, write."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onnx_lab import ops, opsets
from onnx_lab.capture.captured import Capture
from onnx_lab.capture.functionalize import drop_dead_calls, functionalize
from onnx_lab.capture.state import expose_state
from onnx_lab.capture.strategies import capture as capture_model
from onnx_lab.errors import InputError, OnnxLabError
from onnx_lab.lower.lowerer import Lowerer
from onnx_lab.lower.provenance import write_metadata
from onnx_lab.operators import Coverage
from onnx_lab.passes import pipeline
from onnx_lab.program.graph import CapturedGraph
from onnx_lab.program.report import Report
from onnx_lab.result import ExportResult

_STATES = ("frozen", "io")
Lowerings = Mapping[str, Callable[..., Any]]


def export(
    model: Any,
    args: Any = (),
    f: str | os.PathLike[str] | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    dynamic_shapes: Any = None,
    dynamic_axes: Mapping[str, Any] | None = None,
    external_data: bool = True,
    capture: str = "auto",
    training: str = "eval",
    state: str = "frozen",
    lowerings: Lowerings | None = None,
    verify: bool = False,
    on_stage: Callable[[str], None] | None = None,
    **unknown: Any,
) -> ExportResult:
    """Export a PyTorch model to ONNX.

    Args:
        model: an ``nn.Module``, a scripted or traced module or function, the path of a saved one (``.pt``), or a
            ``torch.export.ExportedProgram``.
        args: example positional inputs; a single tensor stands for a tuple of one.
        f: where to write the model; nothing is written without it (see ``ExportResult.save``).
        kwargs: example keyword inputs.
        input_names: names of the input tensors, in order; default: the parameters' names.
        output_names: names of the output tensors, in order.
        opset_version: 18 to 28; default 23.
        dynamic_shapes: as ``torch.export.export`` takes it; a plain string names a dynamic dim.
        dynamic_axes: ``{input name: {axis: dim name}}``, as ``torch.onnx.export`` takes it.
        external_data: with ``f``: keep the weights in ``<f>.data`` beside the model.
        capture: ``auto`` (torch.export, then TorchDynamo; a scripted program as it is), ``export``, ``dynamo``,
            ``script`` or ``trace``.
        training: ``eval``, ``preserve`` or ``train``: the mode that the model is captured in.
        state: what becomes of buffers and attributes that forward writes. ``frozen``: one call of the model
            equals one eager call from the current state. ``io``: each is one more input and one more output, after
            the model's own (see ``ExportResult.initial_state``).
        lowerings: ``{"namespace::op.overload": fn(ctx, *schema arguments)}`` for this export only.
        verify: compare with eager on the example inputs before anything is written.
        on_stage: called with the name of each stage as it begins.

    Returns:
        ExportResult: the model, what was captured, and the tools to look at both.

    Raises:
        InputError: an argument cannot be used; nothing was run.
        CaptureError: no front end could capture the model.
        UnsupportedOperatorsError: operators without a lowering, all of them.
        MismatchError: ``verify=True`` and an output differs.
        SaveError: the file could not be written; what was there is untouched.
    """
    _refuse_unknown(unknown, export)
    opset = opsets.resolve(opset_version)
    _check_state(state)
    report = Report(on_stage=on_stage)
    try:
        captured = _capture(
            model, args, kwargs, report,
            strategy=capture, training=training, dynamic_shapes=dynamic_shapes, dynamic_axes=dynamic_axes,
            input_names=input_names, output_names=output_names, state=state,
        )  # fmt: skip
        result = _lower(captured, opset, lowerings, report, _as_tuple(args), dict(kwargs or {}))
        if verify:
            with report.stage("verify"):
                result.verify().raise_on_mismatch()
        if f is not None:
            with report.stage("save"):
                result.save(f, external_data=external_data)
    except OnnxLabError as error:
        error.report = error.report or report
        raise
    finally:
        report.on_stage = None
    return result


def coverage(
    model: Any,
    args: Any = (),
    *,
    kwargs: Mapping[str, Any] | None = None,
    opset_version: int | None = None,
    dynamic_shapes: Any = None,
    dynamic_axes: Mapping[str, Any] | None = None,
    capture: str = "auto",
    training: str = "eval",
    lowerings: Lowerings | None = None,
    on_stage: Callable[[str], None] | None = None,
    **unknown: Any,
) -> Coverage:
    """Every operator of a model and whether it can be lowered; no model is made.

    Takes the arguments of ``export`` with the same meaning.

    Raises:
        InputError: an argument cannot be used.
        CaptureError: no front end could capture the model.
    """
    _refuse_unknown(unknown, coverage)
    opset = opsets.resolve(opset_version)
    report = Report(on_stage=on_stage)
    try:
        captured = _capture(
            model, args, kwargs, report,
            strategy=capture, training=training, dynamic_shapes=dynamic_shapes, dynamic_axes=dynamic_axes,
            input_names=None, output_names=None,
        )  # fmt: skip
        with report.stage("lower"):
            ops.load()
            lowerer = Lowerer(captured.graph, opset, overrides=lowerings, report=report)
            missing = lowerer.survey()
    finally:
        report.on_stage = None
    return Coverage.of(lowerer, missing, report, opset)


def _capture(
    model: Any, args: Any, kwargs: Mapping[str, Any] | None, report: Report, *, strategy: str, state: str = "frozen",
    **options: Any,
) -> Capture:  # fmt: skip
    with report.stage("capture"):
        captured = capture_model(
            model, _as_tuple(args), dict(kwargs or {}), strategy=strategy, report=report, state=state, **options
        )
    with report.stage("functionalize"):
        functionalize(captured.graph)
        if state == "io":
            captured.state = captured.state or expose_state(captured.graph)
        elif captured.graph.state_writes:
            report.notes.append(_frozen_state(captured.graph))
        drop_dead_calls(captured.graph)
    report.notes.extend(note for note in captured.graph.notes if note not in report.notes)
    return captured


def _frozen_state(graph: CapturedGraph) -> str:
    names = list(dict.fromkeys(one.target for one in graph.state_writes))
    listed = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
    return f"forward writes {listed}: frozen as they were before the call (state='io' makes inputs and outputs of them)"


def _lower(
    captured: Capture, opset: int, lowerings: Lowerings | None, report: Report, args: Any, kwargs: Any
) -> ExportResult:
    with report.stage("lower"):
        ops.load()
        model, values = Lowerer(captured.graph, opset, overrides=lowerings, report=report).run()
    with report.stage("passes"):
        pipeline.run(model)
        write_metadata(model.graph.all_nodes())
    return ExportResult(model, captured, values, report, args, kwargs)


def _as_tuple(args: Any) -> tuple[Any, ...]:
    """A lone example input stands for a tuple of one; a list is a mistake that capture reports."""
    return tuple(args) if isinstance(args, (tuple, list)) else (args,)


def _check_state(state: str) -> None:
    if state not in _STATES:
        raise InputError(f"state={state!r} is not known", hint=f"use one of {', '.join(_STATES)}")


def _refuse_unknown(unknown: Mapping[str, Any], function: Callable[..., Any]) -> None:
    for name in unknown:
        known = function.__kwdefaults__ or {}
        close = difflib.get_close_matches(name, ["args", "f", *known], n=1, cutoff=0.4)
        hint = f"did you mean {close[0]}?" if close else f"the options are {', '.join(known)}"
        raise InputError(f"{function.__name__}() has no option {name}", hint=hint)
