"""Remove nodes and initializers that no output needs."""

from __future__ import annotations

import onnx_ir as ir


def remove_dead_code(model: ir.Model) -> int:
    """Drop unused nodes, bodies included, then unused initializers; returns the number of nodes dropped.

    One walk from the last node to the first: linear in the size of the graph.
    """
    dropped = _clean(model.graph)
    for name, value in list(model.graph.initializers.items()):
        if not value.uses() and not value.is_graph_output():
            del model.graph.initializers[name]
    return dropped


def _clean(graph: ir.Graph) -> int:
    dropped = 0
    for node in reversed(graph):
        if not any(value.uses() or value.is_graph_output() for value in node.outputs):
            graph.remove(node, safe=True)
            dropped += 1
            continue
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH:
                dropped += _clean(attribute.as_graph())
    return dropped
