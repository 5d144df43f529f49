"""Which captured calls made an ONNX node: stamped when it is made, kept through every pass."""

from __future__ import annotations

import json
from collections.abc import Iterable

import onnx_ir as ir

from onnx_lab.program.graph import Call

CALLS = "onnx_lab.calls"  # in node.meta: tuple of Call
SOURCES = "onnx_lab.sources"  # in node.meta: tuple of Source


def stamp(node: ir.Node, call: Call, lowering_name: str) -> None:
    """Mark ``node`` as made by ``call``; the strings for the file are written at the end, once."""
    node.meta[CALLS] = (call,)
    node.meta["onnx_lab.lowering"] = lowering_name


def add_source(node: ir.Node | None, call: Call) -> None:
    """A second call turned out to need the same node."""
    if node is not None and call not in node.meta.get(CALLS, ()):
        node.meta[CALLS] = (*node.meta.get(CALLS, ()), call)


def unite(target: ir.Node, others: Iterable[ir.Node]) -> None:
    """``target`` replaces ``others``: it takes over their calls."""
    for other in others:
        for call in other.meta.get(CALLS, ()):
            add_source(target, call)


def write_metadata(nodes: Iterable[ir.Node]) -> None:
    """Turn the objects in ``meta`` into the strings that are saved with the model."""
    stacks: dict[tuple[tuple[str, str], ...], str] = {}
    for node in nodes:
        calls: tuple[Call, ...] = node.meta.get(CALLS, ())
        if not calls:
            continue
        source = calls[0].source
        node.meta["onnx_lab.call"] = calls[0]
        node.meta[SOURCES] = tuple(call.source for call in calls)
        props = node.metadata_props
        props["onnx_lab.call"] = ",".join(call.name for call in calls)
        props["onnx_lab.op"] = calls[0].key
        props["onnx_lab.module"] = source.module_path
        if source.modules not in stacks:
            stacks[source.modules] = json.dumps([list(pair) for pair in source.modules])
        props["onnx_lab.modules"] = stacks[source.modules]
        if source.location:
            props["onnx_lab.source"] = source.location
        if source.code:
            props["onnx_lab.code"] = source.code
        if node.meta.get("onnx_lab.lowering"):
            props["onnx_lab.lowering"] = node.meta["onnx_lab.lowering"]
        if source.chain:
            props["onnx_lab.chain"] = ",".join(source.chain)
