"""State of scripted programs as inputs and outputs: attributes of any type that forward writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from onnx_lab.capture.functionalize import functionalize
from onnx_lab.capture.state import State, free_name
from onnx_lab.capture.torchscript.objects import Objects
from onnx_lab.capture.torchscript.tape import Tape, same_content, same_value
from onnx_lab.capture.torchscript.templates import (
    DictOf,
    ListOf,
    MaybeHole,
    NumberHole,
    SequenceHole,
    Template,
    TensorHole,
    TupleOf,
    build,
    empty_shape,
    fakes,
    freed,
    leaves,
    template_of,
    unify,
)
from onnx_lab.capture.torchscript.values import TensorValue, Value
from onnx_lab.errors import CaptureError
from onnx_lab.program.graph import CapturedGraph, GraphInput, GraphOutput, Ref

_MOST_ROUNDS = 8
_NUMBER_DTYPE = {"int": torch.int64, "float": torch.float64, "bool": torch.bool}


@dataclass(slots=True)
class StateInputs:
    """Attributes that come in as inputs.

    Attributes:
        templates: by target.
        values: what each attribute is at the start of the call.
        names: of the inputs, one for every leaf.
    """

    templates: dict[str, Template]
    values: dict[str, Value]
    names: list[str]
    graph_inputs: list[GraphInput]

    @classmethod
    def of(cls, tape: Tape, templates: dict[str, Template]) -> StateInputs:
        names: list[str] = []
        inputs: list[GraphInput] = []
        values: dict[str, Value] = {}
        for target, template in templates.items():
            _refuse_lists(target, template)
            made = []
            for label, fake in zip(_labels(target, template), fakes(template, tape), strict=True):
                name = tape.claim(label)
                names.append(name)
                if isinstance(fake, torch.Tensor):
                    tape.symbols.collect([(name, fake, {})])
                inputs.append(GraphInput(name, tape.spec(fake), state=True))
                made.append(tape.wrap(Ref(name), fake))
            values[target] = build(template, iter(made), tape)
        return cls(templates, values, names, inputs)

    def graph_outputs(self, tape: Tape, objects: Objects, taken: set[str]) -> list[GraphOutput]:
        """The state after the call, leaf by leaf."""
        found = [
            leaf for target, template in self.templates.items() for leaf in leaves(template, objects.at(target), tape)
        ]
        taken |= set(self.names)
        return [
            GraphOutput(free_name(f"{name}_out", taken), leaf) for name, leaf in zip(self.names, found, strict=True)
        ]


def changed_state(objects: Objects) -> dict[str, Value]:
    """Attributes that hold another value after the call than before it, by target."""
    found = {target: value for target, value in objects.written().items() if not _as_before(objects, target, value)}
    found |= {
        target: cell
        for target, (cell, before) in objects.containers().items()
        if target not in found and not same_content(cell.content, before)
    }
    return found


def _as_before(objects: Objects, target: str, value: Value) -> bool:
    return same_value(objects.before(target), value)


def find_state(evaluate: Callable[[dict[str, Template]], Any], graph_of: Callable[[Any], CapturedGraph]) -> Any:
    """The evaluation in which everything that forward writes on itself is an input.

    Evaluates until what comes out of each attribute is of the type that comes in.

    Raises:
        CaptureError: an attribute changes its type with every call.
    """
    templates: dict[str, Template] = {}
    for _ in range(_MOST_ROUNDS):
        made = evaluate(templates)
        new = dict(templates)
        for target, value in changed_state(made.objects).items():
            start = templates.get(target)
            start = template_of(made.objects.before(target)) if start is None else start
            new[target] = freed(unify(start, value, made.tape))
        for target in _written_in_place(graph_of(made)):
            new.setdefault(target, _open_tensor(made.objects, target))
        if new == templates:
            return made
        templates = new
    raise CaptureError(
        "the state of the model changes its type from call to call",
        seen=", ".join(templates),
        hint="give each attribute its final type and number of axes when the module is made",
    )


def _written_in_place(graph: CapturedGraph) -> list[str]:
    """Tensors of the module that calls write to."""
    known = {one.target for one in graph.state_writes}
    probe = CapturedGraph(graph.name, graph.inputs, [], graph.weights, list(graph.calls))
    functionalize(probe)
    return [one.target for one in probe.state_writes if one.target not in known]


def _open_tensor(objects: Objects, target: str) -> Template:
    value = objects.before(target)
    assert isinstance(value, TensorValue)
    return TensorHole.like(value)


def _refuse_lists(target: str, template: Template) -> None:
    if isinstance(template, SequenceHole):
        raise CaptureError(
            f"the attribute {target} is a list that grows from call to call",
            hint="keep a tensor and torch.cat to it, or use state='frozen'",
        )
    for part in getattr(template, "parts", ()):
        _refuse_lists(target, part)


def _labels(target: str, template: Template) -> Iterator[str]:
    """A name for every leaf: of the attribute, with positions and keys for the parts of containers."""
    name = target.replace(".", "_")
    if isinstance(template, (TensorHole, NumberHole)):
        yield name
    elif isinstance(template, MaybeHole):
        yield f"{name}_present"
        yield from _labels(name, template.inner)
    elif isinstance(template, (TupleOf, ListOf, DictOf)):
        keys = template.keys if isinstance(template, DictOf) else range(len(template.parts))
        for key, part in zip(keys, template.parts, strict=True):
            yield from _labels(f"{name}_{key}", part)


# -- the module's own state -------------------------------------------------------------------------


def state_of(script: Any, inputs: StateInputs, output_names: list[str]) -> State:
    """The state of a scripted module at the border of the exported model."""

    def read(of: Any) -> list[torch.Tensor]:
        return [
            leaf
            for target, template in inputs.templates.items()
            for leaf in _plain_leaves(template, _attribute(of, target))
        ]

    return State(
        list(inputs.templates), inputs.names, output_names, read, dict(zip(inputs.names, read(script), strict=True))
    )


def _attribute(script: Any, target: str) -> Any:
    *path, name = target.split(".")
    owner = script._c if hasattr(script, "_c") else script
    for part in path:
        owner = owner.getattr(part) if hasattr(owner, "getattr") else getattr(owner, part)
        owner = getattr(owner, "_c", owner)
    return owner.getattr(name) if hasattr(owner, "getattr") else getattr(owner, name)


_UNSET = object()


def _plain_leaves(template: Template, value: Any) -> Iterator[torch.Tensor]:
    """As ``templates.leaves``, of Python's own values."""
    if isinstance(template, TensorHole):
        if value is _UNSET or value.dim() != len(template.shape):
            yield torch.zeros(empty_shape(template), dtype=template.dtype)
        else:
            yield value.detach().clone()
    elif isinstance(template, NumberHole):
        yield torch.tensor(0 if value is _UNSET else value, dtype=_NUMBER_DTYPE[template.kind])
    elif isinstance(template, MaybeHole):
        absent = value is None or value is _UNSET
        yield torch.tensor(not absent)
        yield from _plain_leaves(template.inner, _UNSET if absent else value)
    elif isinstance(template, (TupleOf, ListOf, DictOf)):
        items = [_UNSET] * len(template.parts) if value is _UNSET else value
        for part, item in zip(template.parts, items.values() if isinstance(items, dict) else items, strict=True):
            yield from _plain_leaves(part, item)
