"""CapturedGraph: the one structure in which every front end ends and from which all else starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from onnx_lab.program.op_key import OpKey
from onnx_lab.program.source import UNKNOWN, Source
from onnx_lab.program.spec import Spec, SymbolInfo, TensorSpec


@dataclass(frozen=True, slots=True)
class Ref:
    """A use of a value by its name."""

    name: str

    def __str__(self) -> str:
        return f"%{self.name}"


# Arguments are plain data: Ref, int, float, complex, bool, str, None, DType and (nested) lists.
Argument = Any


@dataclass(slots=True)
class Call:
    """One operator call: it binds its result to the value ``name``.

    A call with several results has a tuple of specs; ``_operator::getitem`` calls pick one.
    Devices, layouts and memory formats among the arguments are strings.
    """

    name: str
    key: OpKey
    args: tuple[Argument, ...] = ()
    kwargs: dict[str, Argument] = field(default_factory=dict)
    spec: Spec = None
    source: Source = UNKNOWN
    regions: tuple[Region, ...] = ()

    def refs(self) -> Iterator[Ref]:
        """Every value that this call reads, captures of its regions included."""
        yield from refs_in((self.args, self.kwargs))
        for region in self.regions:
            yield from region.captures()


@dataclass(slots=True)
class Region:
    """A sub-graph of a control-flow call: parameters of its own, and any outer value by capture."""

    params: list[tuple[str, Spec]]
    calls: list[Call]
    outputs: list[Argument]

    def captures(self) -> Iterator[Ref]:
        """Outer values read inside, in order of use (with repeats)."""
        known = {name for name, _ in self.params}
        for call in self.calls:
            yield from (ref for ref in call.refs() if ref.name not in known)
            known.add(call.name)
        yield from (ref for ref in refs_in(self.outputs) if ref.name not in known)


@dataclass(slots=True)
class Weight:
    """A parameter, buffer or constant of the program; ``tensor`` is the module's own torch tensor.

    ``kind`` is ``parameter``, ``buffer`` or ``constant``; ``target`` is its dotted name in the module.
    Tied weights are two values with one ``tensor``.
    """

    name: str
    spec: TensorSpec
    tensor: Any
    kind: str
    target: str


@dataclass(slots=True)
class GraphInput:
    """An input tensor, or a symbolic number (``spec`` is a ScalarSpec) that the caller gives.

    ``axis_names`` holds the dimension names that the user asked for; ``state`` marks what the model
    itself held before it was exported.
    """

    name: str
    spec: Spec
    axis_names: dict[int, str] = field(default_factory=dict)
    state: bool = False


@dataclass(slots=True)
class GraphOutput:
    """One leaf of the model's result: ``value`` is a Ref, a constant number or None (dropped)."""

    name: str
    value: Argument


@dataclass(slots=True)
class StateWrite:
    """A buffer or attribute that forward writes: the value it has after the call."""

    target: str
    value: Argument


@dataclass(slots=True)
class CapturedGraph:
    """A program as plain data, in execution order and (after functionalization) without writes.

    Attributes:
        name: class name of the model.
        inputs, outputs: leaves in the order of the model's signature.
        weights: by value name.
        calls: in execution order.
        symbols: independent symbolic dims by name.
        state_writes: what forward writes on the module.
        notes: sentences for the report (what was dropped, frozen, narrowed).
        front_end: "export", "dynamo", "trace" or "script".
    """

    name: str
    inputs: list[GraphInput]
    outputs: list[GraphOutput]
    weights: dict[str, Weight]
    calls: list[Call]
    symbols: dict[str, SymbolInfo] = field(default_factory=dict)
    state_writes: list[StateWrite] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    front_end: str = ""

    def all_calls(self) -> Iterator[Call]:
        """Every call, those inside regions included, in order."""
        return walk_calls(self.calls)

    def specs(self) -> dict[str, Spec]:
        """The spec of every top-level value by name."""
        found: dict[str, Spec] = {value.name: value.spec for value in self.inputs}
        found |= {name: weight.spec for name, weight in self.weights.items()}
        found |= {call.name: call.spec for call in self.calls}
        return found


def walk_calls(calls: list[Call]) -> Iterator[Call]:
    for call in calls:
        yield call
        for region in call.regions:
            yield from walk_calls(region.calls)


def refs_in(value: Argument) -> Iterator[Ref]:
    """Every Ref inside nested lists, tuples and dicts."""
    if isinstance(value, Ref):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from refs_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from refs_in(item)


def map_refs(value: Argument, function: Callable[[Ref], Argument]) -> Argument:
    """The same nested argument with every Ref replaced by ``function(ref)``."""
    if isinstance(value, Ref):
        return function(value)
    if isinstance(value, list):
        return [map_refs(item, function) for item in value]
    if isinstance(value, tuple):
        return tuple(map_refs(item, function) for item in value)
    if isinstance(value, dict):
        return {key: map_refs(item, function) for key, item in value.items()}
    return value
