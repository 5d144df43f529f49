"""A model file without a copy of the weights in memory.

A protobuf message is a sequence of fields, and the length of each is known beforehand: everything but
large initializers is serialized as usual, and those are written straight from their own memory.
(Wire format: protobuf.dev/programming-guides/encoding; field numbers: onnx.proto.)
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import onnx
import onnx_ir as ir

_MODEL_GRAPH, _GRAPH_INITIALIZER, _TENSOR_RAW_DATA = 7, 5, 9
_LENGTH_DELIMITED = 2
_CHUNK = 1 << 22  # bytes of a weight that is not contiguous are copied in pieces of about this size
INLINE_BELOW = 1024  # smaller initializers stay in the skeleton


def split_model(model: ir.Model) -> tuple[onnx.ModelProto, list[ir.Value]]:
    """The model as a proto without its large initializers, and those.

    The model itself is not changed.
    """
    graph = model.graph
    large = [value for value in graph.initializers.values() if _is_large(value)]
    taken = {id(value) for value in large}
    skeleton = ir.GraphView(
        graph.inputs,
        graph.outputs,
        nodes=list(graph),
        initializers=[value for value in graph.initializers.values() if id(value) not in taken],
        doc_string=graph.doc_string,
        opset_imports=dict(graph.opset_imports),
        name=graph.name or "model",
        metadata_props=dict(graph.metadata_props),
    )
    head = ir.Model(
        skeleton,  # type: ignore[arg-type]  # a view serializes like a graph and does not own the nodes
        ir_version=model.ir_version or 10,
        producer_name=model.producer_name,
        producer_version=model.producer_version,
        domain=model.domain,
        model_version=model.model_version,
        doc_string=model.doc_string,
        functions=list(model.functions.values()),
        metadata_props=dict(model.metadata_props),
    )
    return ir.to_proto(head), large


def _is_large(value: ir.Value) -> bool:
    tensor = value.const_value
    return tensor is not None and tensor.nbytes >= INLINE_BELOW and tensor.dtype != ir.DataType.STRING


def without_values(values: list[ir.Value]) -> list[str]:
    """Names of initializers that have a shape but no numbers: meta and fake tensors."""
    raws = {str(value.name): getattr(value.const_value, "raw", None) for value in values}
    return [name for name, raw in raws.items() if getattr(raw, "is_meta", False) or hasattr(raw, "fake_mode")]


class InlineFile:
    """The bytes of a model with all weights inside; ``size`` is known before anything is written."""

    def __init__(self, proto: onnx.ModelProto, large: list[ir.Value]) -> None:
        self._large = large
        self._headers = [tensor_header(value).SerializeToString() for value in large]
        self._sizes = [
            len(header) + _field_size(_TENSOR_RAW_DATA, nbytes(value))
            for header, value in zip(self._headers, large, strict=True)
        ]
        self._body = proto.graph.SerializeToString()
        head = onnx.ModelProto()
        head.CopyFrom(proto)
        head.ClearField("graph")
        self._head = head.SerializeToString()
        self._total = len(self._body) + sum(_field_size(_GRAPH_INITIALIZER, size) for size in self._sizes)
        self.size = len(self._head) + _field_size(_MODEL_GRAPH, self._total)

    def write(self, handle: BinaryIO) -> None:
        handle.write(self._head)
        handle.write(_tag(_MODEL_GRAPH) + _varint(self._total))
        handle.write(self._body)
        for header, size, value in zip(self._headers, self._sizes, self._large, strict=True):
            handle.write(_tag(_GRAPH_INITIALIZER) + _varint(size) + header)
            handle.write(_tag(_TENSOR_RAW_DATA) + _varint(nbytes(value)))
            handle.writelines(raw_bytes(value))


def tensor_header(value: ir.Value) -> onnx.TensorProto:
    """Name, element type and shape of an initializer."""
    tensor = _tensor(value)
    return onnx.TensorProto(name=value.name, data_type=int(tensor.dtype), dims=list(tensor.shape.numpy()))


def nbytes(value: ir.Value) -> int:
    return int(_tensor(value).nbytes)


def raw_bytes(value: ir.Value) -> Iterator[bytes | memoryview]:
    """The weight's bytes, little endian and in row order, without copying contiguous ones."""
    tensor = _tensor(value)
    if tensor.dtype.bitwidth < 8 or sys.byteorder == "big":
        yield tensor.tobytes()
        return
    raw: Any = getattr(tensor, "raw", None)
    if hasattr(raw, "resolve_neg"):
        # A torch tensor may be a lazily negated view, which numpy does not know.
        tensor = type(tensor)(raw.detach().resolve_neg(), name=tensor.name) if raw.is_neg() else tensor
    for block in _row_blocks(tensor.numpy()):
        yield np.ascontiguousarray(block).reshape(-1).view(np.uint8).data


def _row_blocks(array: np.ndarray[Any, Any]) -> Iterator[np.ndarray[Any, Any]]:
    """Parts of an array in row order: itself if it is contiguous, else pieces that are cheap to copy."""
    if array.flags.c_contiguous or array.nbytes <= _CHUNK:
        yield array
        return
    row = array.nbytes // array.shape[0]
    if row > _CHUNK:
        for inner in array:
            yield from _row_blocks(inner)
        return
    step = max(1, _CHUNK // row)
    for start in range(0, array.shape[0], step):
        yield array[start : start + step]


def _tensor(value: ir.Value) -> Any:
    assert value.const_value is not None
    return value.const_value


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
