"""A model file without a copy of the weights in memory.

A protobuf message is a sequence of fields, and the length of each is known beforehand: everything but
large initializers is serialized as usual, and those are written straight from their own memory.
(Wire format: protobuf.dev/programming-guides/encoding; field numbers: onnx.proto.)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import onnx
import onnx_ir as ir
from onnx_ir import tensor_adapters

_MODEL_GRAPH, _GRAPH_INITIALIZER, _TENSOR_RAW_DATA = 7, 5, 9
_LENGTH_DELIMITED = 2
_CHUNK = 1 << 24  # bytes of a weight that is not contiguous are copied in pieces of this size
INLINE_BELOW = 1024  # smaller initializers stay in the skeleton


def split_model(model: ir.Model) -> tuple[onnx.ModelProto, list[ir.Value]]:
    """The model as a proto without its large initializers, and those.

    The model itself is not changed.
    """
    large = [value for value in model.graph.initializers.values() if _is_large(value)]
    taken = {value.name for value in large}
    kept = {name: value for name, value in model.graph.initializers.items() if name not in taken}
    proto = onnx.ModelProto()
    head = ir.Model(
        ir.Graph([], [], nodes=[], opset_imports=dict(model.graph.opset_imports), name=model.graph.name),
        ir_version=model.ir_version,
        producer_name=model.producer_name,
        producer_version=model.producer_version,
        domain=model.domain,
        model_version=model.model_version,
        doc_string=model.doc_string,
        functions=list(model.functions.values()),
        metadata_props=dict(model.metadata_props),
    )
    proto.CopyFrom(ir.to_proto(head))
    graph = proto.graph
    graph.Clear()
    _fill_graph(graph, model.graph, kept)
    return proto, large


def _fill_graph(proto: onnx.GraphProto, graph: ir.Graph, initializers: dict[str, ir.Value]) -> None:
    proto.name = graph.name or "model"
    if graph.doc_string:
        proto.doc_string = graph.doc_string
    for key, text in graph.metadata_props.items():
        proto.metadata_props.add(key=key, value=text)
    proto.input.extend(ir.to_proto(value) for value in graph.inputs)
    proto.output.extend(ir.to_proto(value) for value in graph.outputs)
    outputs = {id(value) for value in graph.outputs}
    for node in graph:
        proto.node.append(ir.to_proto(node))
        for value in node.outputs:
            if value.type is not None and id(value) not in outputs and value.name:
                proto.value_info.append(ir.to_proto(value))
    for value in initializers.values():
        if value.const_value is not None:
            tensor = ir.to_proto(value.const_value)
            tensor.name = value.name or ""
            proto.initializer.append(tensor)


def _is_large(value: ir.Value) -> bool:
    tensor = value.const_value
    return tensor is not None and tensor.nbytes >= INLINE_BELOW and tensor.dtype != ir.DataType.STRING


def write_inline(handle: BinaryIO, model: ir.Model) -> None:
    """Write the whole model as one file."""
    proto, large = split_model(model)
    headers = [_tensor_header(value) for value in large]
    sizes = [len(head) + _field_size(_TENSOR_RAW_DATA, _nbytes(value)) for head, value in zip(headers, large, strict=True)]
    body = proto.graph.SerializeToString()
    total = len(body) + sum(_field_size(_GRAPH_INITIALIZER, size) for size in sizes)
    proto.ClearField("graph")
    handle.write(proto.SerializeToString())
    handle.write(_tag(_MODEL_GRAPH) + _varint(total))
    handle.write(body)
    for head, size, value in zip(headers, sizes, large, strict=True):
        handle.write(_tag(_GRAPH_INITIALIZER) + _varint(size) + head)
        handle.write(_tag(_TENSOR_RAW_DATA) + _varint(_nbytes(value)))
        for piece in raw_bytes(value):
            handle.write(piece)


def _tensor_header(value: ir.Value) -> bytes:
    tensor = value.const_value
    assert tensor is not None
    header = onnx.TensorProto(name=value.name, data_type=int(tensor.dtype), dims=[int(dim) for dim in tensor.shape])
    return header.SerializeToString()


def _nbytes(value: ir.Value) -> int:
    assert value.const_value is not None
    return value.const_value.nbytes


def raw_bytes(value: ir.Value) -> Iterator[bytes | memoryview]:
    """The weight's bytes, little endian and in row order, without copying contiguous ones."""
    tensor = value.const_value
    assert tensor is not None
    torch_tensor = getattr(tensor, "raw", None)
    if hasattr(torch_tensor, "is_contiguous") and not torch_tensor.is_contiguous():
        yield from _strided(torch_tensor)
        return
    array = tensor.numpy()
    if tensor.dtype.bitwidth < 8 or not array.flags.c_contiguous:
        yield tensor.tobytes()
        return
    flat = array.reshape(-1).view(np.uint8)
    yield memoryview(flat)  # type: ignore[arg-type]


def _strided(tensor: Any) -> Iterator[bytes]:
    """A weight that is a view (a transposed one, say): row blocks are copied one after the other."""
    row = max(1, math.prod(tensor.shape[1:])) * tensor.element_size()
    step = max(1, _CHUNK // row)
    for start in range(0, tensor.shape[0], step):
        block = tensor[start : start + step].contiguous()
        yield tensor_adapters.TorchTensor(block).tobytes()


def _varint(number: int) -> bytes:
    pieces = bytearray()
    while number > 0x7F:
        pieces.append(number & 0x7F | 0x80)
        number >>= 7
    pieces.append(number)
    return bytes(pieces)


def _tag(field: int) -> bytes:
    return _varint(field << 3 | _LENGTH_DELIMITED)


def _field_size(field: int, length: int) -> int:
    return len(_tag(field)) + len(_varint(length)) + length
