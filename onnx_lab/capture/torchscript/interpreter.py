"""Evaluates a TorchScript program in part: what is known is done at once, the rest becomes calls on the tape."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from onnx_lab.capture.torchscript import branches, containers, loops, operators, scalars
from onnx_lab.capture.torchscript.graphs import SourceOf, body_of_call, operator_key
from onnx_lab.capture.torchscript.objects import Objects
from onnx_lab.capture.torchscript.prim import PRIM
from onnx_lab.capture.torchscript.tape import Tape
from onnx_lab.capture.torchscript.values import Maybe, ObjectCell, Value, describe, is_known
from onnx_lab.errors import CaptureError
from onnx_lab.program.source import Source

Frame = dict[int, Value]
_DEEPEST_CALL = 200
# Whether gradients are kept is all the same to a graph.
_GRADIENT_MODES = ("torch.autograd.grad_mode.", "torch.no_grad")
# torch's fused kernels for attention give the numbers of the plain operators, which is what graphs are made of.
_KNOWN_FUNCTIONS = {"__torch__.torch.backends.mha.get_fastpath_enabled": False}
_KINDS = {"IntType": "int", "FloatType": "float", "BoolType": "bool"}


class Interpreter:
    """One evaluation of a program.

    Attributes:
        tape: receives the calls.
        objects: modules and objects with their attributes.
        stacks: of a flat traced graph, whose nodes name their module: the modules from the root to each.
    """

    def __init__(
        self, tape: Tape, objects: Objects, stacks: Mapping[str, tuple[tuple[str, str], ...]] | None = None
    ) -> None:
        self._stacks = stacks
        self.tape = tape
        self.objects = objects
        self._sources = SourceOf()
        self._caller = tape.source
        self._depth = 0
        self._functions: dict[tuple[str, int], Any] = {}

    # -- graphs and blocks --------------------------------------------------------------------------

    def call(self, graph: Any, args: list[Value], caller: Source) -> list[Value]:
        """The outputs of a graph (of a method or function) for these arguments."""
        if self._depth > _DEEPEST_CALL:
            raise CaptureError("the program calls itself without an end", source=caller)
        outer, self._caller = self._caller, caller
        self._depth += 1
        try:
            return self.block(graph, args, {})
        finally:
            self._caller, self.tape.source = outer, caller
            self._depth -= 1

    def method(self, target: ObjectCell, name: str, args: list[Value]) -> Value:
        """What a method of a module or object returns."""
        graph = self._graph_of(target, name)
        outer = self.tape.source.modules
        # A wrapper around the model is no module of the user's.
        outer = () if outer and outer[-1][0] == target.label else outer
        modules = (*outer, (target.label, target.type_name))
        [result] = self.call(graph, [target, *args], replace(self.tape.source, modules=modules))
        return result

    def _call_method(self, node: Any, args: list[Value]) -> Value:
        name, target = node.s("name"), args[0].inner if isinstance(args[0], Maybe) else args[0]
        if not isinstance(target, ObjectCell):
            raise CaptureError(f"{describe(target)} has no method {name}", source=self.tape.source)
        if target.type_name.startswith(_GRADIENT_MODES):
            return None
        if target.script is not None:
            return self.method(target, name, args[1:])
        # An object that the program itself makes: only the call tells what its class does.
        key = (f"{target.type_name}.{name}", len(args))
        if key not in self._functions:
            self._functions[key] = body_of_call(node)
        [result] = self.call(self._functions[key], [target, *args[1:]], self.tape.source)
        return result

    def _graph_of(self, target: ObjectCell, name: str) -> Any:
        return target.script._get_method(name).graph

    def block(self, block: Any, args: list[Value], frame: Frame) -> list[Value]:
        """Run a block's nodes; ``frame`` holds the values of the blocks around it."""
        for given, value in zip(block.inputs(), args, strict=True):
            frame[given.unique()] = value
        for node in block.nodes():
            self._node(node, frame)
        return [frame[value.unique()] for value in block.outputs()]

    # -- nodes --------------------------------------------------------------------------------------

    def _node(self, node: Any, frame: Frame) -> None:
        self.tape.source = self._source(node)
        kind = str(node.kind())
        if kind == "prim::If":
            results = branches.run(self, node, frame)
        elif kind == "prim::Loop":
            results = loops.run(self, node, frame)
        elif kind == "prim::CallMethod":
            results = [self._call_method(node, [frame[value.unique()] for value in node.inputs()])]
        elif kind == "prim::CallFunction":
            results = self._function(node, [frame[value.unique()] for value in list(node.inputs())[1:]])
        else:
            results = self._operator(node, kind, [frame[value.unique()] for value in node.inputs()])
        for output, value in zip(node.outputs(), results, strict=True):
            frame[output.unique()] = value

    def _source(self, node: Any) -> Source:
        found = self._sources.read(node, self._caller)
        if self._stacks is None or self._depth > 1:
            return found
        stack = self._stacks.get(node.scopeName().rpartition("/")[2], ())
        return replace(found, modules=stack) if stack else found

    def _function(self, node: Any, args: list[Value]) -> list[Value]:
        # A function is one for all its callers, but its default arguments are types of its own: by name.
        function = next(iter(node.inputs()))
        name = str(function.type())
        if name in _KNOWN_FUNCTIONS:
            return [_KNOWN_FUNCTIONS[name]]
        key = (name, len(args))
        if key not in self._functions:
            self._functions[key] = body_of_call(node)
        return self.call(self._functions[key], args, self.tape.source)

    def _operator(self, node: Any, kind: str, args: list[Value]) -> list[Value]:
        special: Callable[..., Any] | None = PRIM.get(kind)
        if special is not None:
            made = special(self, node, args)
            return list(made) if node.outputsSize() != 1 else [made]
        if scalars.is_scalar_operator(args):
            return [scalars.compute(self.tape, kind, args, _KINDS.get(str(node.output().type().kind())))]
        handler = containers.find(kind, args)
        if handler is not None:
            made = handler(self.tape, args)
            return [made] if node.outputsSize() == 1 else []
        if kind.startswith("prim::"):
            return self._unknown(node, kind, args)
        return self._call(node, args)

    def _call(self, node: Any, args: list[Value]) -> list[Value]:
        made = operators.run(self.tape, operator_key(node), args)
        count = node.outputsSize()
        return [made] if count == 1 else list(made) if count else []

    def _unknown(self, node: Any, kind: str, args: list[Value]) -> list[Value]:
        key = operator_key(node)
        if not node.schema().startswith("(no") and all(map(is_known, args)):
            return [operators.run(self.tape, key, args)]
        what = f"the Python function {node.pyname()}" if kind == "prim::PythonOp" else kind
        raise CaptureError(
            f"the program calls {what}, which no graph can hold",
            source=self.tape.source,
            hint="leave that call out of the exported part, or write it with tensor operations",
        )
