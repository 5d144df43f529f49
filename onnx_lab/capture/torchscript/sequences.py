"""Lists whose length only the run tells: packed from known items, and their operators.

They are values of the graph with the keys ``list::pack``, ``append``, ``get``, ``set``, ``insert``, ``pop``, ``len``,
``stack`` and ``cat``; each gives a new list, as graphs have no writes.
"""

from __future__ import annotations

from typing import Any

import torch

from onnx_lab.capture.torchscript.tape import Tape
from onnx_lab.capture.torchscript.values import Number, Sequence, TensorValue, Value, describe
from onnx_lab.errors import CaptureError
from onnx_lab.program.graph import Ref
from onnx_lab.program.spec import DType

_SCALAR = {"int": torch.int64, "float": torch.float64, "bool": torch.bool}


def as_sequence(tape: Tape, content: list[Value] | Sequence, hole: Any) -> Sequence:
    """The list as a value of the graph; ``hole`` (a SequenceHole) tells the type of what it holds."""
    if isinstance(content, Sequence):
        return content
    item = hole.item
    dtype = torch.float32 if item is None else item.dtype
    shape = () if item is None else tuple(getattr(size, "size", size) for size in item.shape)
    shape = tuple(tape.fresh("int", size=True) if size is None else size for size in shape)
    return pack(tape, content, tape.fake(dtype, shape), hole.numbers is not None)


def pack(tape: Tape, items: list[Value], item: torch.Tensor, numbers: bool) -> Sequence:
    """A list of these items, each like ``item``."""
    refs = [_item_ref(tape, one, item) for one in items]
    made = tape.emit("list::pack", (refs, _dtype(item)), Sequence(_NOWHERE, item, numbers))
    assert isinstance(made, Sequence)
    return made


_NOWHERE = Ref("")


def append(tape: Tape, sequence: Sequence, value: Value) -> Sequence:
    return _changed(tape, "append", sequence, (_item_ref(tape, value, sequence.item),), value)


def insert(tape: Tape, sequence: Sequence, index: Value, value: Value) -> Sequence:
    return _changed(tape, "insert", sequence, (_number(index), _item_ref(tape, value, sequence.item)), value)


def set_item(tape: Tape, sequence: Sequence, index: Value, value: Value) -> Sequence:
    return _changed(tape, "set", sequence, (_number(index), _item_ref(tape, value, sequence.item)), value)


def without(tape: Tape, sequence: Sequence, index: Value) -> Sequence:
    """The list without one item."""
    return _changed(tape, "pop", sequence, (_number(index),), None)


def _changed(tape: Tape, name: str, sequence: Sequence, args: tuple[Any, ...], value: Value) -> Sequence:
    item = sequence.item
    if isinstance(value, TensorValue) and [*map(_expression, value.fake.shape)] != [*map(_expression, item.shape)]:
        item = tape.fake(item.dtype, _common_shape(tape, item, value.fake))
    made = tape.emit(f"list::{name}", (sequence.ref, *args), Sequence(_NOWHERE, item, sequence.numbers))
    assert isinstance(made, Sequence)
    return made


def _common_shape(tape: Tape, one: torch.Tensor, other: torch.Tensor) -> list[Any]:
    pairs = zip(one.shape, other.shape, strict=True)
    return [a if _expression(a) == _expression(b) else tape.fresh("int", size=True) for a, b in pairs]


def _expression(size: Any) -> Any:
    return size if isinstance(size, int) else size.node.expr


def get(tape: Tape, sequence: Sequence, index: Value) -> Value:
    """One item: a tensor whose differing dims only the run tells."""
    fake = tape.fake(sequence.item.dtype, [_anew(tape, size) for size in sequence.item.shape])
    made = tape.emit("list::get", (sequence.ref, _number(index)), fake)
    return as_number(tape, made) if sequence.numbers else made


def _anew(tape: Tape, size: Any) -> Any:
    """Dims that differ from item to item are others each time one is read."""
    if isinstance(size, int) or not tape.is_fresh(size):
        return size
    return tape.fresh("int", size=True)


def as_number(tape: Tape, tensor: TensorValue) -> Value:
    """The number that a tensor of one element holds."""
    dtype = tensor.fake.dtype
    kind = "bool" if dtype is torch.bool else "float" if dtype.is_floating_point else "int"
    return tape.emit("aten::item", (tensor.ref,), tape.fresh(kind))


def length(tape: Tape, sequence: Sequence) -> Value:
    return tape.emit("list::len", (sequence.ref,), tape.fresh("int", size=True))


def join(tape: Tape, name: str, sequence: Sequence, dim: int) -> TensorValue:
    """``stack`` or ``cat`` of all items."""
    shape: list[Any] = list(sequence.item.shape)
    size = tape.fresh("int", size=True)
    if name == "stack":
        shape.insert(dim % (len(shape) + 1), size)
    elif shape:
        shape[dim % len(shape)] = size
    made = tape.emit(f"list::{name}", (sequence.ref, dim), tape.fake(sequence.item.dtype, shape))
    assert isinstance(made, TensorValue)
    return made


def _item_ref(tape: Tape, value: Value, item: torch.Tensor) -> Any:
    if isinstance(value, TensorValue):
        if value.fake.dtype != item.dtype or value.fake.dim() != item.dim():
            raise CaptureError(
                "a list whose length only the run tells gets tensors of two kinds",
                source=tape.source,
                seen=f"{describe(value)} beside {item.dtype} of {item.dim()} axes",
                hint="append tensors of one dtype and one number of axes",
            )
        return value.ref
    kind = value.kind if isinstance(value, Number) else type(value).__name__
    if kind not in _SCALAR:
        raise CaptureError(
            "a list whose length only the run tells holds something else than tensors or numbers",
            source=tape.source,
            seen=describe(value),
            hint="keep one list for each part of the items",
        )
    dtype = _SCALAR[kind]
    made = tape.fake(dtype, ())
    tensor = tape.emit("aten::scalar_tensor", (_number(value),), made, kwargs={"dtype": _dtype(made)})
    return tensor.ref


def _number(value: Value) -> Any:
    return value.ref if isinstance(value, Number) else value


def _dtype(item: torch.Tensor) -> DType:
    return DType(str(item.dtype).removeprefix("torch."))
