"""What holds of every graph that we write: small named checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import onnx_ir as ir


def check_invariants(model: ir.Model) -> list[str]:
    """The violated invariants as sentences; an empty list when all hold."""
    return [f"{name}: {found}" for name, check in INVARIANTS.items() for found in check(model)]


def _nodes(graph: ir.Graph) -> Iterator[ir.Node]:
    for node in graph:
        yield node
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH:
                yield from _nodes(attribute.as_graph())


def _unique_names(model: ir.Model) -> Iterator[str]:
    seen: set[str] = set()
    given = [*model.graph.inputs, *model.graph.initializers.values()]
    made = [value for node in _nodes(model.graph) for value in node.outputs]
    for value in [*given, *made]:
        if value.name in seen:
            yield f"two values are called {value.name}"
        seen.add(value.name or "")


def _outputs_are_made(model: ir.Model) -> Iterator[str]:
    for value in model.graph.outputs:
        if value.producer() is None:
            yield f"output {value.name} is made by no node"


def _types_known(model: ir.Model) -> Iterator[str]:
    for value in [*model.graph.inputs, *model.graph.outputs]:
        if value.dtype is None:
            yield f"{value.name} has no element type"


def _provenance_kept(model: ir.Model) -> Iterator[str]:
    for node in _nodes(model.graph):
        if node.op_type != "Identity" and not node.meta.get("onnx_lab.calls"):
            yield f"node {node.name} ({node.op_type}) has no captured call"


def _defined_before_use(model: ir.Model) -> Iterator[str]:
    known = {id(value) for value in [*model.graph.inputs, *model.graph.initializers.values()]}
    yield from _walk_definitions(model.graph, known)


def _walk_definitions(graph: ir.Graph, known: set[int]) -> Iterator[str]:
    known = known | {id(value) for value in graph.inputs}
    for node in graph:
        for value in node.inputs:
            if value is not None and id(value) not in known:
                yield f"node {node.name} ({node.op_type}) reads {value.name} before it is made"
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH:
                yield from _walk_definitions(attribute.as_graph(), known)
        known |= {id(value) for value in node.outputs}


INVARIANTS: dict[str, Callable[[ir.Model], Iterator[str]]] = {
    "unique names": _unique_names,
    "outputs are made": _outputs_are_made,
    "types are known": _types_known,
    "provenance is kept": _provenance_kept,
    "defined before use": _defined_before_use,
}
