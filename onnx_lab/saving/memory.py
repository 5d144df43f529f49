"""The model as a proto in memory: complete, or with references in place of its weights."""

from __future__ import annotations

from typing import Any

import onnx
import onnx_ir as ir

from onnx_lab.errors import SaveError
from onnx_lab.saving.stream import nbytes, raw_bytes, split_model, tensor_header, without_values

SIZE_LIMIT = 2**31 - 1  # protobuf's limit for one message


def model_proto(model: ir.Model) -> onnx.ModelProto:
    """The whole model as a proto; copies the weights.

    Raises:
        SaveError: it would be larger than 2 GB, or a weight has no values.
    """
    proto, large = split_model(model)
    require_values(large)
    size = proto.ByteSize() + sum(nbytes(value) for value in large)
    if size > SIZE_LIMIT - 64 * len(large):
        raise SaveError("a ModelProto ends at 2 GiB", seen=f"{size / 2**30:.1f} GiB", hint="use save()")
    for value in large:
        made = tensor_header(value)
        made.raw_data = b"".join(raw_bytes(value))
        proto.graph.initializer.append(made)
    return proto


def without_weights(model: ir.Model) -> tuple[onnx.ModelProto, list[ir.Value]]:
    """The model with its large initializers as references to memory, and those initializers.

    For runtimes that take weights beside the model; nothing is copied. Types below one byte stay inside.

    Raises:
        SaveError: a weight has no values.
    """
    proto, large = split_model(model)
    require_values(large)
    beside = []
    for value in large:
        assert value.const_value is not None
        if value.const_value.dtype.bitwidth < 8:
            made = tensor_header(value)
            made.raw_data = b"".join(raw_bytes(value))
        else:
            made = reference(value, "memory", 0, nbytes(value))
            beside.append(value)
        proto.graph.initializer.append(made)
    return proto, beside


def require_values(values: list[ir.Value]) -> None:
    """Refuse weights that are only shapes.

    Raises:
        SaveError: names them.
    """
    names = without_values(values)
    if names:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        raise SaveError(
            f"weight {names[0]}{more} has no values",
            seen="a meta or fake tensor",
            hint="load the weights into the model, then export again",
        )


def reference(value: ir.Value, location: str, offset: int, length: int) -> onnx.TensorProto:
    """An initializer whose bytes are elsewhere."""
    made = tensor_header(value)
    made.data_location = onnx.TensorProto.EXTERNAL
    entries: dict[str, Any] = {"location": location, "offset": offset, "length": length}
    for key, content in entries.items():
        made.external_data.add(key=key, value=str(content))
    return made
