"""capture="script" and capture="trace": from what the user gives to a captured graph."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch

from onnx_lab.capture.captured import Capture
from onnx_lab.capture.failure import reason
from onnx_lab.capture.shapes import read_request
from onnx_lab.capture.signature import bind, read_signature, rename_inputs
from onnx_lab.capture.torchscript.kept import script_mode, script_state_kept
from onnx_lab.capture.torchscript.script import Evaluation, Program, evaluate, graph_of
from onnx_lab.capture.torchscript.signature import arguments, script_signature, structure
from onnx_lab.capture.torchscript.state import find_state, state_of
from onnx_lab.capture.torchscript.tape import Tape
from onnx_lab.capture.torchscript.values import TensorValue, Value
from onnx_lab.errors import CaptureError
from onnx_lab.program.graph import CapturedGraph
from onnx_lab.program.source import Source

# Torch does not declare it as public.
_plain_execution: Any = torch.jit.optimized_execution  # type: ignore[attr-defined]
DEPRECATED = (
    "torch.jit is deprecated by torch (use torch.export for new code); this works as long as torch itself scripts, "
    "traces and reads such programs"
)


@dataclass(slots=True)
class ScriptCapture(Capture):
    """A capture of a scripted module or function, which runs eagerly without torch's optimizing executor."""

    @contextmanager
    def _surroundings(self) -> Iterator[None]:
        with script_mode(self.model, self.training), script_state_kept(self.model), _plain_execution(False):
            yield


def is_script(model: Any) -> bool:
    return isinstance(model, (torch.jit.ScriptModule, torch.jit.ScriptFunction))


@contextmanager
def quiet_deprecations(notes: list[str]) -> Iterator[None]:
    """Inside, torch's warnings that torch.jit is deprecated are one note."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for one in caught:
        if issubclass(one.category, DeprecationWarning) and "torch.jit" in str(one.message):
            if DEPRECATED not in notes:
                notes.append(DEPRECATED)
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)


def scripted(model: torch.nn.Module, notes: list[str]) -> Any:
    """``torch.jit.script(model)``.

    Raises:
        CaptureError: TorchScript does not take the model's code; it names the line.
    """
    try:
        with quiet_deprecations(notes):
            return torch.jit.script(model)
    except Exception as error:  # the compiler raises many types
        raise _not_scriptable(model, error) from error


def _not_scriptable(model: torch.nn.Module, error: Exception) -> CaptureError:
    from onnx_lab.capture.torchscript.graphs import source_in

    source = source_in(str(error))
    return CaptureError(
        f"{type(model).__name__} cannot be scripted: TorchScript does not take this Python",
        source=source if source.file is not None else Source(),
        seen=reason(error),
        hint="use capture='export', or rewrite that line in the part of Python that TorchScript has",
    )


def capture_script(
    script: Any, args: Sequence[Any], kwargs: Mapping[str, Any], *, model: Any, front_end: str, training: str,
    dynamic_shapes: Any, dynamic_axes: Any, input_names: Any, output_names: Any, state: str, notes: list[str],
) -> Capture:  # fmt: skip
    """The capture of a scripted or traced program; ``model`` is what runs eagerly for comparison.

    Raises:
        InputError: the inputs do not fit the program.
        CaptureError: the program does what no graph can hold.
    """
    program = Program.of(script)
    forward = script_signature(program.schema, method=program.method)
    signature = read_signature(script, args, kwargs, forward)
    rename_inputs(signature, input_names)
    bound = bind(forward, args, kwargs)
    request = read_request(dynamic_shapes, dynamic_axes, signature, bound, script, args, kwargs)

    def given_arguments(tape: Tape, given: list[TensorValue]) -> list[Value]:
        return arguments(tape, program.schema, bound, iter(given), method=program.method)

    def structured(tape: Tape, value: Value) -> Any:
        return structure(tape, value, program.result_type)

    def run(templates: dict[str, Any]) -> Evaluation:
        return evaluate(program, signature, request, bound, given_arguments, templates)

    def probe(made: Evaluation) -> CapturedGraph:
        return graph_of(made, replace(signature, output_names=[], output_leaves=[]), front_end, None, structured)

    made = find_state(run, probe) if state == "io" else run({})
    graph = graph_of(made, signature, front_end, output_names, structured)
    graph.notes += notes
    kind = ScriptCapture if is_script(model) else Capture
    capture = kind(graph, None, signature, model, training)
    if state == "io":
        names = [one.name for one in graph.outputs[len(signature.output_names) :]]
        capture.state = state_of(model, made.state, names)
    return capture
