"""ExportedProgram → CapturedGraph."""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind, TensorArgument

from onnx_lab.capture.converter import FxConverter
from onnx_lab.capture.shapes import ShapeRequest
from onnx_lab.capture.signature import CallSignature, name_outputs
from onnx_lab.capture.sizes import SymbolNames
from onnx_lab.errors import CaptureError
from onnx_lab.program.graph import CapturedGraph, GraphInput, GraphOutput, Ref, StateWrite, Weight

_WEIGHT_KINDS = {
    InputKind.PARAMETER: "parameter",
    InputKind.BUFFER: "buffer",
    InputKind.CONSTANT_TENSOR: "constant",
}
_MUTATIONS = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION)


def convert_program(
    program: ExportedProgram,
    signature: CallSignature,
    request: ShapeRequest,
    *,
    name: str,
    front_end: str,
    output_names: Any = None,
) -> tuple[CapturedGraph, dict[int, Any], SymbolNames]:
    """The captured graph (writes still in it), the example value of every input leaf, and the dim names.

    Weights are the program's own tensors: nothing is copied.
    """
    module = program.graph_module
    examples = {node.name: node.meta.get("val") for node in module.graph.nodes if node.op == "placeholder"}
    users = [spec for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]
    if len(users) != len(signature.names):
        raise CaptureError(
            f"the captured program has {len(users)} inputs where the call has {len(signature.names)}",
            hint="pass the inputs as the model's forward declares them",
        )
    leaves = {index: examples[spec.arg.name] for index, spec in enumerate(users) if _is_tensor(examples, spec)}
    symbols = SymbolNames()
    symbols.collect(
        [(signature.names[index] or "", value, request.asked.get(index, {})) for index, value in leaves.items()]
    )
    converter = FxConverter(symbols.rename)
    for input_name in signature.names:
        converter.reserve(input_name or "")
    graph = CapturedGraph(name, [], [], {}, [], front_end=front_end)
    names = _bind_inputs(program, signature, request, graph, converter, examples)
    graph.calls, output = converter.convert(module, names)
    _bind_outputs(program, signature, graph, output, output_names)
    graph.symbols = symbols.infos(program.range_constraints)
    graph.notes += [*converter.notes, *symbols.notes]
    return graph, leaves, symbols


def _is_tensor(examples: dict[str, Any], spec: Any) -> bool:
    return isinstance(spec.arg, TensorArgument) and isinstance(examples.get(spec.arg.name), torch.Tensor)


def _bind_inputs(
    program: ExportedProgram,
    signature: CallSignature,
    request: ShapeRequest,
    graph: CapturedGraph,
    converter: FxConverter,
    examples: dict[str, Any],
) -> dict[str, Any]:
    """Inputs and weights of the graph; returns what each placeholder stands for."""
    names: dict[str, Any] = {}
    index = 0
    for spec in program.graph_signature.input_specs:
        name = spec.arg.name
        if spec.kind is InputKind.USER_INPUT:
            asked = signature.names[index]
            if isinstance(spec.arg, ConstantArgument) or asked is None:
                names[name] = signature.baked[index]
            else:
                dims = {axis: dim.name for axis, dim in request.asked.get(index, {}).items() if dim.name is not None}
                graph.inputs.append(GraphInput(asked, converter.spec(examples[name]), dims))
                names[name] = Ref(asked)
            index += 1
        elif spec.kind in _WEIGHT_KINDS and spec.target is not None:
            value = _weight(name, spec, program, converter, examples)
            graph.weights[name] = value
            converter.reserve(name)
            names[name] = Ref(name)
        else:
            names[name] = program.constants.get(spec.target or "")
    return names


def _weight(name: str, spec: Any, program: ExportedProgram, converter: FxConverter, examples: dict[str, Any]) -> Weight:
    tensor = program.state_dict.get(spec.target)
    if tensor is None:
        tensor = program.constants[spec.target]
    return Weight(name, converter.spec(examples[name]), tensor, _WEIGHT_KINDS[spec.kind], spec.target)  # type: ignore[arg-type]


def _bind_outputs(
    program: ExportedProgram, signature: CallSignature, graph: CapturedGraph, output: Any, asked: Any
) -> None:
    specs = program.graph_signature.output_specs
    values = list(output) if isinstance(output, (list, tuple)) else [output]
    results = []
    for spec, value in zip(specs, values, strict=True):
        if spec.kind in _MUTATIONS:
            graph.state_writes.append(StateWrite(spec.target or "", value))
        elif spec.kind is OutputKind.USER_OUTPUT:
            results.append(value)
    out_spec = program.call_spec.out_spec
    if out_spec is None:
        raise CaptureError("the exported program does not tell the structure of its result")
    kept = [index for index, value in enumerate(results) if isinstance(value, (Ref, int, float))]
    if not kept:
        raise CaptureError("the model returns no tensor", hint="return at least one tensor from forward")
    name_outputs(signature, out_spec, kept, asked)
    pairs = zip(signature.output_names, kept, strict=True)
    graph.outputs = [GraphOutput(name, results[index]) for name, index in pairs]
