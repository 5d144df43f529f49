"""save_model(): one file, or a model with its weights beside it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir

from onnx_lab.errors import SaveError
from onnx_lab.saving.atomic import Replacement, replacing
from onnx_lab.saving.stream import raw_bytes, split_model, write_inline

SIZE_LIMIT = 2**31 - 1  # protobuf's limit for one message
_ALIGNMENT = 4096  # page size: runtimes map the weights


def save_model(
    model: ir.Model,
    path: str | os.PathLike[str],
    *,
    external_data: bool | None = None,
    size_limit: int = SIZE_LIMIT,
) -> list[Path]:
    """Write ``model`` to ``path``; weights are streamed, the model is not changed.

    With external data two files are renamed, the weights first. Between the two renames a reader of an
    older model with external data of the same name could see new weights; every other failure, Ctrl-C
    included, leaves both files as they were.

    Args:
        external_data: True: weights in ``<path>.data``; False: one file; None: one file below 2 GB.
        size_limit: bytes above which one file is not possible.

    Returns:
        The files written, the model first.

    Raises:
        SaveError: the place cannot be written, or one file was asked for and would be too large.
    """
    path = Path(path)
    weight_bytes = sum(_nbytes(value) for value in model.graph.initializers.values())
    # The graph itself needs room as well; it is far smaller than this margin.
    too_large = weight_bytes > size_limit - min(2**26, size_limit // 8)
    if external_data is False and too_large:
        raise SaveError(
            f"{path} would hold {weight_bytes / 2**30:.1f} GiB: a protobuf file ends at 2 GiB",
            hint="leave external_data out, or set it to True",
        )
    with replacing(path) as replacement:
        if external_data or (external_data is None and too_large):
            _write_external(replacement, model, path)
        else:
            with replacement.open(path) as handle:
                write_inline(handle, model)
        return replacement.commit()[::-1]


def model_proto(model: ir.Model) -> onnx.ModelProto:
    """The whole model as a proto; copies the weights.

    Raises:
        SaveError: it would be larger than 2 GB.
    """
    weight_bytes = sum(_nbytes(value) for value in model.graph.initializers.values())
    if weight_bytes > SIZE_LIMIT - 2**26:
        raise SaveError("a ModelProto ends at 2 GiB", seen=f"{weight_bytes / 2**30:.1f} GiB", hint="use save()")
    proto: onnx.ModelProto = ir.to_proto(model)
    return proto


def without_weights(model: ir.Model) -> tuple[onnx.ModelProto, list[ir.Value]]:
    """The model with its large initializers as references to memory, and those initializers.

    For runtimes that take weights beside the model; nothing is copied.
    """
    proto, large = split_model(model)
    for value in large:
        proto.graph.initializer.append(_reference(value, "memory", 0, _nbytes(value)))
    return proto, large


def _nbytes(value: ir.Value) -> int:
    return 0 if value.const_value is None else int(value.const_value.nbytes)


def _write_external(replacement: Replacement, model: ir.Model, path: Path) -> None:
    """Weights into ``<name>.data`` at aligned offsets, each memory once; the model refers to them."""
    data = path.with_name(path.name + ".data")
    proto, large = split_model(model)
    places: dict[Any, tuple[int, int]] = {}
    with replacement.open(data) as handle:
        for value in large:
            key = _memory(value)
            if key not in places:
                handle.write(b"\0" * (-handle.tell() % _ALIGNMENT))
                start = handle.tell()
                for piece in raw_bytes(value):
                    handle.write(piece)
                places[key] = (start, handle.tell() - start)
            proto.graph.initializer.append(_reference(value, data.name, *places[key]))
    with replacement.open(path) as handle:
        handle.write(proto.SerializeToString())


def _reference(value: ir.Value, location: str, offset: int, length: int) -> onnx.TensorProto:
    tensor = value.const_value
    assert tensor is not None
    made = onnx.TensorProto(name=value.name, data_type=int(tensor.dtype), dims=[int(dim) for dim in tensor.shape])
    made.data_location = onnx.TensorProto.EXTERNAL
    for key, text in (("location", location), ("offset", str(offset)), ("length", str(length))):
        made.external_data.add(key=key, value=text)
    return made


def _memory(value: ir.Value) -> Any:
    """Equal for initializers that are the same bytes in memory."""
    raw = getattr(value.const_value, "raw", None)
    if hasattr(raw, "data_ptr"):
        return (raw.data_ptr(), tuple(raw.shape), tuple(raw.stride()), str(raw.dtype))
    return id(value)
