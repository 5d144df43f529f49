"""From lowered values to an ``ir.Model``: outputs of their own, unique names, used initializers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import onnx.helper
import onnx_ir as ir

from onnx_lab.lower import dtypes
from onnx_lab.lower.complex import Complex, pack
from onnx_lab.lower.provenance import CALLS
from onnx_lab.program.graph import Ref

if TYPE_CHECKING:
    from onnx_lab.lower.lowerer import Lowerer

# The oldest file format that knows the opset: the most runtimes can read it.
_IR_VERSIONS = {
    opset: found for (domain, opset), found in onnx.helper.OP_SET_ID_VERSION_MAP.items() if domain == "ai.onnx"
}


def assemble(lowerer: Lowerer) -> tuple[ir.Model, dict[str, str | None]]:
    """Build the model; also tells the ONNX name of every captured value (None: it has none)."""
    nodes = lowerer.builder.scope.nodes
    outputs = _outputs(lowerer, nodes)
    initializers = [*lowerer.weights.values, *lowerer.builder.constants.values]
    _name_values(lowerer, nodes, outputs, initializers)
    opset = lowerer.builder.opset
    graph = ir.Graph(
        lowerer.inputs,
        outputs,
        nodes=nodes,
        initializers=initializers,
        opset_imports=_domains(nodes, opset),
        name=lowerer.graph.name or "model",
    )
    model = ir.Model(graph, ir_version=_IR_VERSIONS.get(opset, max(_IR_VERSIONS.values())), producer_name="onnx_lab")
    return model, {name: _name_of(value) for name, value in (lowerer.inside | lowerer.env).items()}


def _domains(nodes: list[ir.Node], opset: int) -> dict[str, int]:
    return {"": opset} | {node.domain: 1 for node in nodes if node.domain}


def _name_of(value: Any) -> str | None:
    return value.name if isinstance(value, ir.Value) else None


def _outputs(lowerer: Lowerer, nodes: list[ir.Node]) -> list[ir.Value]:
    """One value per output: an input, a weight or a value given twice gets an Identity of its own."""
    taken = {id(value) for value in lowerer.inputs}
    outputs = []
    for output in lowerer.graph.outputs:
        if output.value is None:
            continue
        value = lowerer.argument(output.value)
        if isinstance(value, Complex):
            value = pack(lowerer.builder, value)
        if not isinstance(value, ir.Value):
            value = lowerer.builder.constants.get(value, dtypes.type_of_number(value))
        if id(value) in taken or value.producer() is None:
            value = _copy(value, nodes)
        taken.add(id(value))
        value.name = output.name
        outputs.append(value)
        if isinstance(output.value, Ref):
            _restore_shape(lowerer, output.value.name, value)
    return outputs


def _restore_shape(lowerer: Lowerer, name: str, value: ir.Value) -> None:
    """A value that another call named first may carry a shape with fewer names than the output's spec."""
    spec = lowerer.specs.get(name)
    shape = getattr(spec, "shape", None)
    if shape is None or getattr(spec, "dtype", "") in dtypes.COMPLEX_NAMES:
        return
    value.shape = ir.Shape([dim if isinstance(dim, int) else dim.expr for dim in shape])


def _copy(value: ir.Value, nodes: list[ir.Node]) -> ir.Value:
    node = ir.Node("", "Identity", [value], num_outputs=1)
    producer = value.producer()
    if producer is not None and CALLS in producer.meta:
        node.meta[CALLS] = producer.meta[CALLS]
    node.outputs[0].type, node.outputs[0].shape = value.type, value.shape
    nodes.append(node)
    return node.outputs[0]


def _name_values(lowerer: Lowerer, nodes: list[ir.Node], outputs: list[ir.Value], initializers: list[ir.Value]) -> None:
    """Every value and node gets a name that is unique in the whole model, bodies included."""
    fixed = [*lowerer.inputs, *outputs]
    taken = {value.name for value in fixed}
    skip = {id(value) for value in fixed}

    def claim(wanted: str) -> str:
        name, number = wanted, 1
        while name in taken:
            name, number = f"{wanted}_{number}", number + 1
        taken.add(name)
        return name

    def walk(body: list[ir.Node] | ir.Graph) -> None:
        for node in body:
            calls = node.meta.get(CALLS, ())
            stem = f"{calls[0].name}__{node.op_type}" if calls else node.op_type
            for attribute in node.attributes.values():
                if attribute.type == ir.AttributeType.GRAPH:
                    inner: ir.Graph = attribute.as_graph()
                    for value in inner.inputs:
                        value.name = claim(value.name or f"{stem}_in")
                    walk(inner)
            for value in node.outputs:
                if id(value) not in skip:
                    value.name = claim(value.name or stem)
            node.name = node.outputs[0].name or stem

    for value in initializers:
        value.name = claim(value.name or "weight")
    walk(nodes)
