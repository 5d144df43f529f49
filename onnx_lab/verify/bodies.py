"""Values inside branches and loops: the body of the model runs beside PyTorch's, turn by turn.

Each body is a small model of its own for the runtime: what it reads from the outside are inputs, and its
intermediate values outputs. It is fed with the runtime's own values, so that an error shows where it begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort

from onnx_lab.program.graph import Call
from onnx_lab.verify.arrays import feed, plain
from onnx_lab.verify.runtime import QUIET, rejected

_BODIES = ("If", "Loop", "Scan")
OTHER_BRANCH = "the model takes the other branch"
_NO_NODE = "the model has no such branch or loop"
_CONDITION = "the condition of a loop"


class Values(Protocol):
    """Runtime values by name."""

    def has(self, name: str) -> bool: ...

    def get(self, name: str) -> Any: ...


@dataclass(slots=True)
class Frame:
    """One turn of one body.

    Attributes:
        outside: values of what the body is in.
        inside: its own values; None when it is not run.
        reason: why it is not.
    """

    outside: Values
    inside: dict[str, Any] | None
    reason: str = ""

    def has(self, name: str) -> bool:
        return name in (self.inside or {}) or self.outside.has(name)

    def get(self, name: str) -> Any:
        inside = self.inside or {}
        return inside[name] if name in inside else self.outside.get(name)


@dataclass(slots=True)
class BodyRunner:
    """Runs the bodies of one model as PyTorch enters them.

    Args:
        model: the model.
        values: ONNX value name by captured value name.
        main: runtime values of the main graph.
    """

    model: ir.Model
    values: Mapping[str, str | None]
    main: Values
    _nodes: dict[str, ir.Node] = field(default_factory=dict)
    _sessions: dict[int, _Body] = field(default_factory=dict)
    _stack: list[Frame] = field(default_factory=list)
    _states: list[list[Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for node in self.model.graph.all_nodes():
            if node.op_type in _BODIES:
                for name in node.metadata_props.get("onnx_lab.call", "").split(","):
                    self._nodes.setdefault(name, node)

    @property
    def top(self) -> Frame:
        return self._stack[-1]

    def enter(self, call: Call, region: int, turn: int) -> None:
        """PyTorch is about to run a region of a call."""
        outside: Values = self._stack[-1] if self._stack else self.main
        depth = len(self._stack)
        self._stack.append(self._frame(call, region, turn, outside, depth))

    def leave(self) -> None:
        self._stack.pop()

    def _frame(self, call: Call, region: int, turn: int, outside: Values, depth: int) -> Frame:
        node = self._nodes.get(call.name)
        if node is None or (isinstance(outside, Frame) and outside.inside is None):
            reason = outside.reason if isinstance(outside, Frame) and outside.reason else _NO_NODE
            return Frame(outside, None, reason)
        if node.op_type == "If":
            return self._branch(node, region, outside)
        if len(call.regions) == 2 and region == 0:
            return Frame(outside, None, _CONDITION)
        return self._turn(node, turn, outside, depth)

    def _branch(self, node: ir.Node, region: int, outside: Values) -> Frame:
        taken = bool(plain(_read(outside, node.inputs[0])).array.reshape(-1)[0])
        if taken != (region == 0):
            return Frame(outside, None, OTHER_BRANCH)
        body = self._body(node, "then_branch" if taken else "else_branch")
        return Frame(outside, body.run({}, outside))

    def _turn(self, node: ir.Node, turn: int, outside: Values, depth: int) -> Frame:
        body = self._body(node, "body")
        names = [value.name or "" for value in body.graph.inputs]
        del self._states[depth + 1 :]
        if turn == 0:
            del self._states[depth:]
            first = 2 if node.op_type == "Loop" else 0
            self._states += [[]] * (depth - len(self._states))
            self._states.append([_read(outside, value) for value in node.inputs[first : first + _carried(node)]])
        states = self._states[depth]
        given = dict(zip(names[2:] if node.op_type == "Loop" else names, states, strict=False))
        if node.op_type == "Loop":
            given |= {names[0]: feed(np.asarray(turn)), names[1]: feed(np.asarray(True))}
        else:
            rows = node.inputs[_carried(node) :]
            for name, value in zip(names[_carried(node) :], rows, strict=True):
                given[name] = feed(np.asarray(plain(_read(outside, value)).array[turn]))
        found = body.run(given, outside)
        outputs = [found[value.name or ""] for value in body.graph.outputs]
        self._states[depth] = outputs[1:] if node.op_type == "Loop" else outputs[: _carried(node)]
        return Frame(outside, found)

    def _body(self, node: ir.Node, attribute: str) -> _Body:
        graph = node.attributes[attribute].as_graph()
        found = self._sessions.get(id(graph))
        if found is None:
            found = _Body(self.model, graph, {name for name in self.values.values() if name})
            self._sessions[id(graph)] = found
        return found


def _carried(node: ir.Node) -> int:
    """How many states a Loop or Scan carries from turn to turn."""
    if node.op_type == "Loop":
        return len(node.inputs) - 2
    return len(node.inputs) - node.attributes["num_scan_inputs"].as_int()


def _read(values: Values, value: ir.Value | None) -> Any:
    assert value is not None
    assert value.name is not None
    return values.get(value.name)


def outer_names(model: ir.Model) -> set[str]:
    """Values that some branch or loop reads from the outside, by name."""
    found: set[str] = set()
    for node in model.graph.all_nodes():
        if node.op_type in _BODIES:
            found |= {value.name for value in node.inputs if value is not None and value.name}
            for graph in _graphs(node):
                found |= set(_outer(graph))
    return found


def _graphs(node: ir.Node) -> Iterator[ir.Graph]:
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            yield attribute.as_graph()


def _outer(graph: ir.Graph) -> dict[str, ir.Value]:
    """Values that a body (with the bodies in it) reads and does not make."""
    made = {id(value) for node in graph.all_nodes() for value in node.outputs}
    made |= {id(value) for value in graph.inputs}
    for node in graph.all_nodes():
        for inner in _graphs(node):
            made |= {id(value) for value in inner.inputs}
    read = [value for node in graph.all_nodes() for value in node.inputs if value is not None]
    return {value.name: value for value in read if id(value) not in made and value.name}


class _Body:
    """One body as a model of the runtime."""

    def __init__(self, model: ir.Model, graph: ir.Graph, wanted: set[str]) -> None:
        self.graph = graph
        self._model = model
        outer = _outer(graph)
        made = {value.name for node in graph for value in node.outputs if value.name}
        bodies = [node for node in graph if node.op_type in _BODIES]
        inner = {name for node in bodies for one in _graphs(node) for name in _outer(one)}
        inner |= {value.name for node in bodies for value in node.inputs if value is not None and value.name}
        extra = sorted((wanted | inner) & made)
        proto = ir.to_proto(graph)
        own = {one.name for one in proto.output}
        del proto.input[:]
        proto.input.extend(_declared(value) for value in [*graph.inputs, *outer.values()])
        proto.output.extend(onnx.ValueInfoProto(name=name) for name in extra if name not in own)
        opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in model.graph.opset_imports.items()]
        whole = onnx.helper.make_model(proto, opset_imports=opsets, ir_version=model.ir_version)
        options = ort.SessionOptions()
        options.log_severity_level = QUIET
        options.use_deterministic_compute = True
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        try:
            self._session = ort.InferenceSession(whole.SerializeToString(), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # the runtime raises many classes of its own
            raise rejected(model, error, "refuses a body of the model") from error
        self._outer = list(outer)

    def run(self, given: Mapping[str, Any], outside: Values) -> dict[str, Any]:
        """All its values, and those of its inputs, by name."""
        feeds = dict(given) | {name: outside.get(name) for name in self._outer}
        names = [made.name for made in self._session.get_outputs()]
        values = {
            one.name: value if isinstance(value := feeds[one.name], ort.OrtValue) else feed(_tensor(value))
            for one in self._session.get_inputs()
        }
        try:
            found = self._session.run_with_ort_values(names, values)
        except Exception as error:
            raise rejected(self._model, error, "fails while running a body of the model") from error
        return dict(given) | dict(zip(names, found, strict=True))


def _declared(value: ir.Value) -> onnx.ValueInfoProto:
    """An input of a body without its shape, which may differ from turn to turn."""
    proto: onnx.ValueInfoProto = ir.to_proto(value)
    kind = proto.type.sequence_type.elem_type if proto.type.HasField("sequence_type") else proto.type
    kind.tensor_type.ClearField("shape")
    return proto


def _tensor(value: Any) -> Any:
    """A weight of the model as what it holds."""
    if isinstance(value, ir.TensorProtocol):
        raw = getattr(value, "raw", None)
        return raw if raw is not None and not isinstance(raw, onnx.TensorProto) else value.numpy()
    return value
