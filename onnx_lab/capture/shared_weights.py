"""Weights that lie in the same memory: a write to one is a write to the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from onnx_lab.capture.views import IDENTITY, View
from onnx_lab.program.graph import Call, Ref, Weight
from onnx_lab.program.op_key import OpKey

if TYPE_CHECKING:
    from onnx_lab.capture.functionalize import Functionalizer


def share_weights(walker: Functionalizer, weights: Iterable[Weight]) -> None:
    """Make weights views of the one that covers their memory; what lies otherwise may not be written."""
    by_memory: dict[int, list[Weight]] = {}
    for weight in weights:
        if (memory := _memory(weight.tensor)) is not None:
            by_memory.setdefault(memory, []).append(weight)
    for group in by_memory.values():
        if len(group) > 1:
            _share(walker, group)


def _memory(tensor: Any) -> int | None:
    try:
        return int(tensor.untyped_storage().data_ptr()) or None
    except (NotImplementedError, RuntimeError):  # fake, sparse and other opaque tensors have none
        return None


def _share(walker: Functionalizer, group: list[Weight]) -> None:
    whole = max(group, key=lambda weight: _covers(weight.tensor))
    for weight in group:
        if weight is whole:
            continue
        place, base = _place(weight.tensor), _place(whole.tensor)
        if place == base:
            call = Call(weight.name, OpKey(IDENTITY))
        elif _covers(whole.tensor) and weight.tensor.dtype == whole.tensor.dtype:
            size, stride, offset = (
                list(weight.tensor.shape),
                list(weight.tensor.stride()),
                weight.tensor.storage_offset(),
            )
            call = Call(
                weight.name, OpKey("aten::as_strided"), (Ref(whole.name), size, stride, offset), {}, weight.spec
            )
        else:
            walker.sharing.share(weight.name, frozenset({whole.name}))
            continue
        walker.alias(weight.name, View(whole.name, call, weight.spec))


def _covers(tensor: Any) -> bool:
    """Whether a tensor is its memory, element by element in order."""
    return bool(
        tensor.is_contiguous()
        and tensor.storage_offset() == 0
        and tensor.numel() * tensor.element_size() == tensor.untyped_storage().nbytes()
    )


def _place(tensor: Any) -> tuple[Any, ...]:
    return tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.storage_offset()
