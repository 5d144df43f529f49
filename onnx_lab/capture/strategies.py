"""Which front end, in what order, and the report of each try."""

from __future__ import annotations

import difflib
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx.experimental import _config as fx_config
from torch.utils import _pytree as pytree

from onnx_lab.capture.captured import Capture, copied
from onnx_lab.capture.exported import convert_program
from onnx_lab.capture.failure import explain, is_control_flow, reason
from onnx_lab.capture.kept import attributes_kept, marks_kept, state_kept, writes_recorded
from onnx_lab.capture.modes import training_mode
from onnx_lab.capture.quiet import quiet_torch
from onnx_lab.capture.recurrent import kept_whole
from onnx_lab.capture.shape_rules import shape_rules
from onnx_lab.capture.shapes import ShapeRequest, read_request
from onnx_lab.capture.signature import CallSignature, bind, read_signature, rename_inputs
from onnx_lab.capture.sizes import BranchRecorder, check_branches, check_frozen, check_small
from onnx_lab.capture.stand_ins import StandIns
from onnx_lab.capture.torchscript.archive import is_archive_path, load_script
from onnx_lab.capture.torchscript.entry import capture_torchscript, who_would_take
from onnx_lab.capture.torchscript.front_end import is_script
from onnx_lab.capture.trees import register_containers
from onnx_lab.errors import CaptureError, InputError
from onnx_lab.program.graph import StateWrite
from onnx_lab.program.report import Report, Try

# Its patch() is installed at run time, where type checkers do not see it.
_config: Any = fx_config

# What each strategy tries, in order.
STRATEGIES: dict[str, tuple[str, ...]] = {
    "auto": ("export", "dynamo"),
    "export": ("export",),
    "dynamo": ("dynamo",),
    "trace": ("trace",),
    "script": ("script",),
}


def capture(
    model: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    strategy: str = "auto",
    dynamic_shapes: Any = None,
    dynamic_axes: Mapping[str, Any] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    training: str = "eval",
    state: str = "frozen",
    report: Report | None = None,
) -> Capture:
    """Capture a model on example inputs.

    Arguments mean what they mean in ``onnx_lab.export``. The model is left as it was on any exit.

    Raises:
        InputError: an argument cannot be used; nothing was run.
        CaptureError: every strategy failed; the report holds each try.
    """
    report = report if report is not None else Report()
    if is_archive_path(model):
        model = load_script(model)
    _check(model, strategy)
    if isinstance(model, ExportedProgram):
        return _take(model, args, kwargs, input_names, output_names)
    if is_script(model) or strategy in ("script", "trace"):
        return capture_torchscript(
            model, args, kwargs or {}, report, strategy=strategy, training=training, dynamic_shapes=dynamic_shapes,
            dynamic_axes=dynamic_axes, input_names=input_names, output_names=output_names, state=state,
        )  # fmt: skip
    signature = read_signature(model, args, kwargs or {})
    args, kwargs = _distinct(_in_order(signature, args, kwargs or {}))
    rename_inputs(signature, input_names)
    bound = bind(signature.forward, args, kwargs)
    request = read_request(dynamic_shapes, dynamic_axes, signature, bound, model, args, kwargs)
    with training_mode(model, training, report), attributes_kept(model), marks_kept((args, kwargs)):
        try:
            recorder, program, name, written = _try_all(model, args, kwargs, STRATEGIES[strategy], request, report)
        except CaptureError as error:
            if strategy == "auto":
                error.hint = _with_alternatives(error, model, args, kwargs, dynamic_shapes, dynamic_axes)
            raise
        graph, values, names = convert_program(
            program, signature, request, name=type(model).__name__, front_end=name, output_names=output_names
        )
        graph.state_writes += [StateWrite(target, None) for target in written]
    made = Capture(graph, program, signature, model, training)
    if request.small:
        check_small(program, made.run_eager(args, kwargs))
    check_frozen(request, signature, values, graph.name)
    graph.notes += check_branches(recorder, request, values, names, program.range_constraints)
    return made


def _with_alternatives(
    error: CaptureError, model: torch.nn.Module, args: Any, kwargs: Any, dynamic_shapes: Any, dynamic_axes: Any
) -> str:
    """The hint of an error, with the other captures that would take a model whose control flow reads data."""
    if not is_control_flow(error.__cause__ or error):
        return error.hint
    others = who_would_take(model, args, kwargs, dynamic_shapes=dynamic_shapes, dynamic_axes=dynamic_axes)
    return f"{others}; or {error.hint}" if error.hint else others


def _try_all(
    model: torch.nn.Module,
    args: Any,
    kwargs: Any,
    strategies: Sequence[str],
    request: ShapeRequest,
    report: Report,
) -> tuple[BranchRecorder, ExportedProgram, str, list[str]]:
    """What the first strategy makes that torch accepts, its name, and attributes that forward wrote.

    Raises:
        CaptureError: all failed.
    """
    tries: list[Try] = []
    for name in strategies:
        one = Try(name, 0.0)
        tries.append(one)
        report.tries.append(one)
        recorder = BranchRecorder()
        start = time.perf_counter()
        try:
            # Bytecode analysis has its own way with modes; what needs a stand-in is captured without it.
            instead: AbstractContextManager[Any] = StandIns() if name == "export" else nullcontext()
            with _surroundings(request), recorder.recording(), writes_recorded(model) as written, instead:
                program = _export(model, args, kwargs, request.tree, strict=name == "dynamo")
                return recorder, program, name, written
        except Exception as error:  # noqa: BLE001  whatever torch raises is a reason to try the next strategy
            one.error, one.reason = error, reason(error)
        finally:
            one.seconds = time.perf_counter() - start
    raise explain(tries, type(model).__name__) from tries[0].error


def _export(model: torch.nn.Module, args: Any, kwargs: Any, shapes: Any, *, strict: bool) -> ExportedProgram:
    """torch.export; a result of a type it does not know is registered and tried once more."""
    try:
        return torch.export.export(model, args, kwargs, dynamic_shapes=shapes, strict=strict)
    except (RuntimeError, ValueError, TypeError) as error:
        if "pytree" not in str(error) and "output" not in str(error).lower():
            raise
        if not _register_result(model, args, kwargs):
            raise
    return torch.export.export(model, args, kwargs, dynamic_shapes=shapes, strict=strict)


def _register_result(model: torch.nn.Module, args: Any, kwargs: Any) -> bool:
    """Run the model once on copies to see what containers it returns; True when one was new."""
    before = len(pytree.SUPPORTED_NODES)
    args, kwargs = copied((args, kwargs))
    with state_kept(model), torch.no_grad():
        register_containers(model(*args, **kwargs))
    return len(pytree.SUPPORTED_NODES) > before


@contextmanager
def _surroundings(request: ShapeRequest) -> Iterator[None]:
    """No gradients, whole recurrent layers, no fused fast paths, torch's own warnings quiet."""
    fast_path = torch.backends.mha.get_fastpath_enabled()
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(warnings.catch_warnings())
        # Torch warns of its own inner workings here; what the model itself warns of shows in eager runs.
        warnings.simplefilter("ignore")
        stack.enter_context(quiet_torch())
        stack.enter_context(kept_whole())
        stack.enter_context(shape_rules())
        if request.small:
            # Sizes 0 and 1 of an asked axis are treated like any other size.
            stack.enter_context(_config.patch(backed_size_oblivious=True))
        stack.callback(torch.backends.mha.set_fastpath_enabled, fast_path)
        torch.backends.mha.set_fastpath_enabled(False)
        yield


def _distinct(call: tuple[tuple[Any, ...], dict[str, Any]]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A tensor given for two inputs becomes two: torch would otherwise take the inputs for one and the same."""
    seen: set[int] = set()

    def once(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or leaf.numel() == 0 or leaf.is_meta:
            return leaf
        memory = leaf.untyped_storage().data_ptr()
        if memory in seen:
            return leaf.clone()
        seen.add(memory)
        return leaf

    made: tuple[tuple[Any, ...], dict[str, Any]] = pytree.tree_map(once, call)
    return made


def _in_order(
    signature: CallSignature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Keywords in the order of the signature, so that leaves come in one order everywhere."""
    known = [name for name in signature.forward.parameters if name in kwargs]
    return tuple(args), {name: kwargs[name] for name in [*known, *(name for name in kwargs if name not in known)]}


def _check(model: Any, strategy: str) -> None:
    if strategy not in STRATEGIES:
        close = difflib.get_close_matches(str(strategy), STRATEGIES, n=1, cutoff=0.3)
        hint = f"did you mean {close[0]!r}?" if close else f"use one of {', '.join(STRATEGIES)}"
        raise InputError(f"capture={strategy!r} is not known", hint=hint)
    if is_script(model):
        if strategy in ("export", "dynamo"):
            raise InputError(
                f"capture={strategy!r} takes no scripted or traced program",
                seen=type(model).__name__,
                hint="use capture='script' (or 'auto'), or pass the nn.Module that it was made from",
            )
        return
    if not isinstance(model, (torch.nn.Module, ExportedProgram)):
        raise InputError(
            f"the model is a {type(model).__name__}, no torch.nn.Module",
            hint="pass a module instance (not its class), a torch.export.ExportedProgram, or a saved .pt file",
        )


def _take(
    program: ExportedProgram, args: Sequence[Any], kwargs: Mapping[str, Any] | None, input_names: Any, output_names: Any
) -> Capture:
    """An ExportedProgram is taken as it is, with the shapes that it was exported with."""
    if not args and not kwargs:
        if program.example_inputs is None:
            raise InputError("the ExportedProgram has no example inputs", hint="pass them as args and kwargs")
        args, kwargs = program.example_inputs
    module = program.module(check_guards=False)
    signature = read_signature(module, args, kwargs or {})
    rename_inputs(signature, input_names)
    register_containers((args, kwargs))
    graph, _, _ = convert_program(
        program, signature, ShapeRequest(None, {}, False), name="ExportedProgram", front_end="export",
        output_names=output_names,
    )  # fmt: skip
    return Capture(graph, program, signature, module)
