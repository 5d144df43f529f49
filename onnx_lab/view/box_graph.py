"""A graph to draw, whatever it came from: boxes with a module path, and edges between them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir

from onnx_lab.program.graph import CapturedGraph, Region
from onnx_lab.program.op_key import OpKey
from onnx_lab.view.module_calls import separate_runs

SMALL_CONSTANT = 16  # elements up to which a constant's content is shown


@dataclass(slots=True)
class Box:
    """One operator, input or output.

    Attributes:
        key: unique, stable name; the SVG node has it as id.
        title: operator type or input name.
        kind: ``op``, ``input`` or ``output``.
        path: module path as a tuple, outermost first; bodies of control flow add a part of their own.
        detail: a short second line.
        tip: lines of the tooltip.
        origin: captured call that an ONNX node came from.
    """

    key: str
    title: str
    kind: str
    path: tuple[str, ...] = ()
    detail: str = ""
    tip: list[str] = field(default_factory=list)
    origin: str = ""


@dataclass(slots=True)
class BoxGraph:
    """Boxes in execution order; an edge is (from, to, what flows)."""

    name: str
    boxes: dict[str, Box]
    edges: list[tuple[str, str, str]]
    classes: dict[tuple[str, ...], str]  # class name of the module at a path


def of_captured(graph: CapturedGraph) -> BoxGraph:
    """The FX side: one box per captured call."""
    boxes: dict[str, Box] = {}
    edges: list[tuple[str, str, str]] = []
    classes: dict[tuple[str, ...], str] = {}
    made: dict[str, tuple[str, str]] = {}  # value → (box, spec)
    for given in graph.inputs:
        key = f"in:{given.name}"
        boxes[key] = Box(key, given.name, "input", detail=str(given.spec), tip=[f"input {given.name}", str(given.spec)])
        made[given.name] = (key, str(given.spec))
    weights = {name: f"{weight.target} {weight.spec}" for name, weight in graph.weights.items()}

    def add(calls: list[Any], inner: tuple[str, ...]) -> None:
        for call in calls:
            if call.key == "_operator::getitem" and call.args and getattr(call.args[0], "name", "") in made:
                made[call.name] = (made[call.args[0].name][0], str(call.spec))
                continue
            key = f"fx:{call.name}"
            path = (*_path(call.source.module_path), *inner)
            _note_classes(classes, call.source.modules)
            used = [weights[ref.name] for ref in call.refs() if ref.name in weights]
            tip = [f"{call.name} = {call.key}", str(call.spec) if not isinstance(call.spec, tuple) else "", *used]
            tip += [call.source.location, call.source.code or ""]
            boxes[key] = Box(
                key, OpKey(call.key).name, "op", path, tip=[line for line in tip if line], origin=call.name
            )
            edges.extend((made[ref.name][0], key, made[ref.name][1]) for ref in call.refs() if ref.name in made)
            made[call.name] = (key, str(call.spec))
            for number, region in enumerate(call.regions):
                _add_region(region, f"{call.name} body {number}", key, inner)

    def _add_region(region: Region, label: str, owner: str, inner: tuple[str, ...]) -> None:
        for name, spec in region.params:
            made[name] = (owner, str(spec))
        add(region.calls, (*inner, label))

    add(graph.calls, ())
    for output in graph.outputs:
        name = getattr(output.value, "name", "")
        if name in made:
            key = f"out:{output.name}"
            spec = made[name][1]
            boxes[key] = Box(key, output.name, "output", detail=spec, tip=[f"output {output.name}", spec])
            edges.append((made[name][0], key, spec))
    separate_runs(boxes.values(), classes)
    return BoxGraph(graph.name, boxes, edges, classes)


def of_model(model: ir.Model) -> BoxGraph:
    """The ONNX side: one box per node; constants and initializers are told in the tooltips."""
    boxes: dict[str, Box] = {}
    edges: list[tuple[str, str, str]] = []
    classes: dict[tuple[str, ...], str] = {}
    made: dict[int, str] = {}
    for value in model.graph.inputs:
        key = f"in:{value.name}"
        boxes[key] = Box(key, value.name or "", "input", detail=_type(value), tip=[f"input {value.name}", _type(value)])
        made[id(value)] = key

    def add(graph: ir.Graph, inner: tuple[str, ...]) -> None:
        for number, node in enumerate(graph):
            if node.op_type == "Constant":
                continue
            key = f"onnx:{node.name or f'{node.op_type}_{number}'}"
            path = (*_node_path(node, classes), *inner)
            boxes[key] = Box(
                key, node.op_type, "op", path, tip=_node_tip(node), origin=node.metadata_props.get("onnx_lab.call", "")
            )
            known = [value for value in node.inputs if value is not None and id(value) in made]
            edges.extend((made[id(value)], key, _type(value)) for value in known)
            for value in node.outputs:
                made[id(value)] = key
            for attribute in node.attributes.values():
                if attribute.type == ir.AttributeType.GRAPH:
                    body = attribute.as_graph()
                    for value in body.inputs:
                        made[id(value)] = key
                    add(body, (*inner, f"{node.name} {attribute.name}"))
                    if not body.inputs:  # a branch: only its results join it to its If
                        given = [value for value in body.outputs if id(value) in made]
                        edges.extend((made[id(value)], key, _type(value)) for value in given)

    add(model.graph, ())
    for value in model.graph.outputs:
        key = f"out:{value.name}"
        boxes[key] = Box(
            key, value.name or "", "output", detail=_type(value), tip=[f"output {value.name}", _type(value)]
        )
        if id(value) in made:
            edges.append((made[id(value)], key, _type(value)))
    separate_runs(boxes.values(), classes)
    return BoxGraph(model.graph.name or "model", boxes, edges, classes)


def _path(dotted: str) -> tuple[str, ...]:
    return tuple(dotted.split(".")) if dotted else ()


def _note_classes(classes: dict[tuple[str, ...], str], modules: Any) -> None:
    for path, kind in modules:
        classes.setdefault(_path(path), str(kind).rpartition(".")[2])


def _node_path(node: ir.Node, classes: dict[tuple[str, ...], str]) -> tuple[str, ...]:
    """From our metadata, else from what other exporters write."""
    props = node.metadata_props
    if "onnx_lab.modules" in props:
        _note_classes(classes, json.loads(props["onnx_lab.modules"]))
        return _path(props.get("onnx_lab.module", ""))
    if "pkg.torch.onnx.name_scopes" in props:
        scopes = [text for text in props["pkg.torch.onnx.name_scopes"].strip("[]").replace("'", "").split(", ") if text]
        return _path(scopes[-2]) if len(scopes) > 1 else ()
    parts = (node.name or "").strip("/").split("/")
    return tuple(parts[:-1])


def _type(value: ir.Value) -> str:
    dtype = value.dtype.name.lower() if value.dtype is not None else "?"
    shape = "[?]" if value.shape is None else "[" + ", ".join(_dim(dim) for dim in value.shape) + "]"
    return f"{dtype}{shape}"


def _dim(dim: Any) -> str:
    if isinstance(dim, int):
        return str(dim)
    return str(dim.value) if getattr(dim, "value", None) is not None else "?"


def _node_tip(node: ir.Node) -> list[str]:
    lines = [f"{node.name}: {node.op_type}"]
    lines += [f"→ {_type(value)}" for value in node.outputs]
    for value in node.inputs:
        if value is not None and value.const_value is not None:
            lines.append(f"{value.name} {_type(value)}{_content(value)}")
    for attribute in node.attributes.values():
        if attribute.type not in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS, ir.AttributeType.TENSOR):
            lines.append(f"{attribute.name} = {str(attribute.value)[:60]}")
    props = node.metadata_props
    for key in ("onnx_lab.op", "onnx_lab.source", "onnx_lab.code"):
        if key in props:
            lines.append(props[key])
    return lines


def _content(value: ir.Value) -> str:
    tensor = value.const_value
    if tensor is None or tensor.size > SMALL_CONSTANT:
        return ""
    return f" = {tensor.numpy().tolist()}"
