"""Scripted programs → CapturedGraph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch.fx.experimental import _config as fx_config
from torch.utils import _pytree as pytree

from onnx_lab.capture.shape_rules import shape_rules
from onnx_lab.capture.shapes import AskedDim, ShapeRequest, requested_axes
from onnx_lab.capture.signature import CallSignature, name_outputs
from onnx_lab.capture.sizes import bound_of
from onnx_lab.capture.torchscript.graphs import class_name
from onnx_lab.capture.torchscript.interpreter import Interpreter
from onnx_lab.capture.torchscript.objects import Objects
from onnx_lab.capture.torchscript.raising import RaisedError
from onnx_lab.capture.torchscript.signature import Leaf
from onnx_lab.capture.torchscript.state import StateInputs, changed_state
from onnx_lab.capture.torchscript.tape import NeedsSymbolsError, Tape
from onnx_lab.capture.torchscript.templates import Template
from onnx_lab.capture.torchscript.values import Number, TensorValue, Value
from onnx_lab.errors import CaptureError
from onnx_lab.program.graph import CapturedGraph, GraphInput, GraphOutput, Ref, StateWrite
from onnx_lab.program.source import Source

# Its patch() is installed at run time, where type checkers do not see it.
_config: Any = fx_config


@dataclass(slots=True)
class Program:
    """A scripted program.

    Attributes:
        script: torch's ScriptModule or ScriptFunction.
        schema: of forward.
        method: whether it is a module's.
        name: of the class or function.
        stacks: of a flat traced graph: for the path of each module, the modules from the root to it.
    """

    script: Any
    schema: Any
    method: bool
    name: str
    stacks: Mapping[str, tuple[tuple[str, str], ...]] | None = None

    @property
    def result_type(self) -> Any:
        """The declared type of the result."""
        returns = self.schema.returns
        return returns[0].type if returns else None

    def parameters(self) -> frozenset[str]:
        """Dotted names of the parameters."""
        return frozenset(name for name, _ in self.script.named_parameters()) if self.method else frozenset()

    @classmethod
    def of(cls, script: Any) -> Program:
        if isinstance(script, torch.jit.ScriptFunction):
            return cls(script, script.schema, False, str(script.name))
        name = class_name(script._c._type()).rpartition(".")[2]
        return cls(script, script._c._get_method("forward").schema, True, name)


@dataclass(slots=True)
class Evaluation:
    """A program after its evaluation: what it was given, what it returns, and its objects."""

    program: Program
    signature: CallSignature
    request: ShapeRequest
    tape: Tape
    objects: Objects
    given: list[TensorValue]
    result: Value
    state: StateInputs


def evaluate(
    program: Program,
    signature: CallSignature,
    request: ShapeRequest,
    bound: dict[str, Any],
    arguments_of: Callable[[Tape, list[TensorValue]], list[Value]],
    state: dict[str, Template] | None = None,
    root: str = "",
) -> Evaluation:
    """Evaluate a program on inputs like the example's.

    Args:
        bound: the example's arguments by parameter.
        arguments_of: makes the program's arguments of the input tensors.
        state: attributes that are inputs, by target.
        root: path of the submodule whose paths are the user's (a wrapper stands around it).

    Raises:
        CaptureError: the program does what no graph can hold; it names the line.
    """
    if not request.asked and not state:
        try:
            return _evaluated(True, program, signature, request, bound, arguments_of, {}, root)
        except NeedsSymbolsError:
            pass  # something of it only the run tells
    return _evaluated(False, program, signature, request, bound, arguments_of, state or {}, root)


def _evaluated(
    plain: bool, program: Program, signature: CallSignature, request: ShapeRequest, bound: dict[str, Any],
    arguments_of: Callable[[Tape, list[TensorValue]], list[Value]], state: dict[str, Template], root: str,
) -> Evaluation:  # fmt: skip
    tape = Tape({name for name in signature.names if name is not None}, plain=plain)
    with _config.patch(backed_size_oblivious=True), shape_rules():
        given = _inputs(tape, bound, signature, request)
        objects = Objects(tape, program.parameters(), root)
        held = StateInputs.of(tape, state)
        objects.given = held.values
        run = Interpreter(tape, objects, program.stacks)
        try:
            result = _call(run, program, arguments_of(tape, given))
        except RaisedError as raised:
            raise CaptureError(
                f"the program raises an error for these inputs: {raised}",
                source=tape.source,
                hint="run it eagerly on these inputs first",
            ) from raised
        check_sizes(tape, signature, request, given, program.name)
    return Evaluation(program, signature, request, tape, objects, given, result, held)


def _call(run: Interpreter, program: Program, args: list[Value]) -> Value:
    if program.method:
        return run.method(run.objects.module(program.script._c, ""), "forward", args)
    [result] = run.call(program.script.graph, args, Source())
    return result


def _inputs(tape: Tape, bound: dict[str, Any], signature: CallSignature, request: ShapeRequest) -> list[TensorValue]:
    """A value for every tensor among the leaves of the arguments."""
    sizes: dict[str, torch.SymInt] = {}
    made = []
    for index, leaf in enumerate(pytree.tree_leaves(bound)):
        name = signature.names[index]
        if name is None:
            continue
        asked = request.asked.get(index, {})
        shape = [_size(tape, sizes, name, axis, size, asked.get(axis)) for axis, size in enumerate(leaf.shape)]
        made.append(TensorValue(tape.fake(leaf.dtype, shape), Ref(name)))
    tape.symbols.collect(
        [
            (value.ref.name, value.fake, request.asked.get(index, {}))
            for value, index in zip(made, _tensor_leaves(signature), strict=True)
        ]
    )
    return made


def _tensor_leaves(signature: CallSignature) -> list[int]:
    return [index for index, name in enumerate(signature.names) if name is not None]


def _size(
    tape: Tape, sizes: dict[str, torch.SymInt], name: str, axis: int, example: int, asked: AskedDim | None
) -> int | torch.SymInt:
    if asked is None:
        return example
    if asked.name is not None and asked.name in sizes:
        return sizes[asked.name]
    made = tape.input_size(f"{name}_{axis}", example, asked.lower, asked.upper)
    if asked.name is not None:
        sizes[asked.name] = made
    return made


def check_sizes(
    tape: Tape, signature: CallSignature, request: ShapeRequest, given: list[TensorValue], name: str
) -> None:
    """Every axis that was asked to be dynamic has stayed so, over the whole range asked for.

    Raises:
        CaptureError: the program fixes one.
    """
    by_leaf = dict(zip(_tensor_leaves(signature), given, strict=True))
    for leaf, axis, asked in requested_axes(request):
        size = by_leaf[leaf].fake.shape[axis]
        wanted = asked.name or f"axis {axis}"
        expression = sympy_of(size)
        if expression.is_Integer:
            if asked.required:
                raise CaptureError(
                    f"the dim {wanted} of input {signature.names[leaf]} cannot be dynamic: the model specializes it",
                    seen=f"axis {axis} is always {expression} in {name}",
                    hint=f"leave axis {axis} static, or change the model so that it takes other sizes",
                )
        elif isinstance(expression, sympy.Symbol):
            _note_range(tape, expression, wanted, asked)


def sympy_of(size: Any) -> Any:
    """The expression of a size, as sympy has it."""
    return sympy.Integer(size) if isinstance(size, int) else size.node.expr


def _note_range(tape: Tape, symbol: sympy.Symbol, name: str, asked: AskedDim) -> None:
    bounds = tape.environment.var_to_range[symbol]
    lower, upper = bound_of(bounds.lower), bound_of(bounds.upper)
    narrowed = []
    if upper is not None and (asked.upper is None or upper < asked.upper):
        narrowed.append(f"{name} <= {upper}")
    if lower is not None and lower > max(1, asked.lower or 0):
        narrowed.append(f"{name} >= {lower}")
    if narrowed:
        tape.notes.append(f"the model holds for {' and '.join(narrowed)}: an operator has no more room")


def graph_of(
    made: Evaluation,
    signature: CallSignature,
    front_end: str,
    output_names: Sequence[str] | None,
    structured: Callable[[Tape, Value], Any],
) -> CapturedGraph:
    """The captured graph of an evaluation, writes still in it; ``structured`` gives the result's containers.

    Raises:
        CaptureError: the result holds what can be no output.
    """
    tape = made.tape
    graph = CapturedGraph(made.program.name, [], [], tape.weights, tape.calls, front_end=front_end)
    for value, index in zip(made.given, _tensor_leaves(signature), strict=True):
        dims = {axis: dim.name for axis, dim in made.request.asked.get(index, {}).items() if dim.name is not None}
        graph.inputs.append(GraphInput(value.ref.name, tape.spec(value.fake), dims))
    graph.inputs += made.state.graph_inputs
    leaves, tree = pytree.tree_flatten(structured(tape, made.result))
    values = [_output(leaf) for leaf in leaves]
    kept = [index for index, value in enumerate(values) if isinstance(value, (Ref, int, float))]
    if not kept:
        raise CaptureError("the model returns no tensor", hint="return at least one tensor from forward")
    name_outputs(signature, tree, kept, output_names)
    pairs = zip(signature.output_names, kept, strict=True)
    graph.outputs = [GraphOutput(name, values[index]) for name, index in pairs]
    with tape.abstractly():
        graph.outputs += made.state.graph_outputs(tape, made.objects, {one.name for one in graph.outputs})
    graph.state_writes = [
        StateWrite(target, _output(Leaf(value))) for target, value in changed_state(made.objects).items()
    ]
    graph.symbols = tape.symbols.infos(tape.environment.var_to_range)
    graph.notes += [*tape.notes, *tape.converter.notes, *tape.symbols.notes]
    return graph


def _output(leaf: Any) -> Any:
    if not isinstance(leaf, Leaf):
        return leaf
    value = leaf.value
    return value.ref if isinstance(value, (TensorValue, Number)) else value
