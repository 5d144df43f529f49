"""Weights in a file of their own beside the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir

from onnx_lab.saving.atomic import Replacement
from onnx_lab.saving.memory import reference
from onnx_lab.saving.stream import nbytes, raw_bytes

_ALIGNMENT = 4096  # page size: runtimes map the weights


def data_path(path: Path) -> Path:
    return path.with_name(path.name + ".data")


def write_external(replacement: Replacement, proto: onnx.ModelProto, large: list[ir.Value], path: Path) -> None:
    """Weights into ``<name>.data`` at aligned offsets, each memory once; the model refers to them."""
    data = data_path(path)
    _let_old_model_keep_its_weights(replacement, path, data)
    places: dict[Any, tuple[int, int]] = {}
    with replacement.open(data) as handle:
        for value in large:
            key = _memory(value)
            if key not in places:
                handle.write(b"\0" * (-handle.tell() % _ALIGNMENT))
                places[key] = (handle.tell(), nbytes(value))
                handle.writelines(raw_bytes(value))
            proto.graph.initializer.append(reference(value, data.name, *places[key]))
    with replacement.open(path) as handle:
        handle.write(proto.SerializeToString())


def _let_old_model_keep_its_weights(replacement: Replacement, path: Path, data: Path) -> None:
    """Two renames cannot be one: between them the old model must not be beside the new weights.

    So the first rename puts in a copy of the old model that knows its weights by a second name.
    """
    if not (path.is_file() and data.is_file()):
        return
    try:
        old = onnx.load(path, load_external_data=False)
    except Exception:  # noqa: BLE001 - whatever it is, it is no model that these weights belong to
        return
    entries = [
        entry
        for tensor in old.graph.initializer
        for entry in tensor.external_data
        if entry.key == "location" and entry.value == data.name
    ]
    if not entries:
        return
    kept = replacement.keep(data)
    for entry in entries:
        entry.value = kept.name
    with replacement.open(path) as handle:
        handle.write(old.SerializeToString())


def _memory(value: ir.Value) -> Any:
    """Equal for initializers that are the same bytes in memory."""
    raw: Any = getattr(value.const_value, "raw", None)
    if raw is None or not hasattr(raw, "data_ptr"):
        return id(value.const_value)
    layout = () if raw.is_contiguous() else (tuple(raw.shape), tuple(raw.stride()), raw.dtype)
    return (str(raw.device), raw.data_ptr(), nbytes(value), layout, raw.is_neg())
