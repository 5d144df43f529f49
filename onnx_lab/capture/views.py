"""Inverses of views: what a write through a view means for the tensor behind it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from onnx_lab.errors import MutationError
from onnx_lab.program.graph import Call, Ref
from onnx_lab.program.spec import Spec, TensorSpec

# emit(key, args, spec) appends a call and returns the Ref of its result.
Emit = Callable[[str, tuple[Any, ...], Spec], Ref]
IDENTITY = "identity"


@dataclass(slots=True)
class View:
    """A value that shares memory with ``base``: result ``index`` of ``call`` (None: the only one)."""

    base: str
    call: Call
    spec: Spec
    index: int | None = None


@dataclass(slots=True)
class Write:
    """One inverse to compute: ``base`` with ``new`` written where the view lies."""

    call: Call
    index: int | None
    base: Ref
    new: Ref
    base_spec: TensorSpec
    view_spec: TensorSpec
    emit: Emit

    def argument(self, position: int, name: str, default: Any = None) -> Any:
        """An argument of the view call, by position or keyword."""
        if position < len(self.call.args):
            return self.call.args[position]
        return self.call.kwargs.get(name, default)


def refused(call: Call, what: str, hint: str = "write to a clone: y = x.clone(); y[...] = ...") -> MutationError:
    """The error for a write that is not understood."""
    return MutationError(what, op=call.key, source=call.source, seen=f"{call.name} = {call.key}", hint=hint)


Inverse = Callable[[Write], Ref | None]


def invert(write: Write) -> Ref | None:
    """The new base; None when this view's inverse is not understood."""
    rule = _INVERSES.get(write.call.key)
    if rule is not None:
        return rule(write)
    same = write.base_spec.shape == write.view_spec.shape and write.base_spec.dtype == write.view_spec.dtype
    return write.new if same and write.call.key in _SAME_WHEN_EQUAL else None


def _reshaped(write: Write) -> Ref | None:
    if write.base_spec.dtype != write.view_spec.dtype:
        return None
    return write.emit("aten::reshape_as", (write.new, write.base), write.base_spec)


def _slice(write: Write) -> Ref:
    rest = (
        write.argument(1, "dim", 0),
        write.argument(2, "start"),
        write.argument(3, "end"),
        write.argument(4, "step", 1),
    )
    return write.emit("aten::slice_scatter", (write.base, write.new, *rest), write.base_spec)


def _narrow(write: Write) -> Ref | None:
    dim, start, length = write.argument(1, "dim"), write.argument(2, "start"), write.argument(3, "length")
    if not isinstance(start, int) or not isinstance(length, int):
        return None
    return _into(write, dim, start, start + length)


def _select(write: Write) -> Ref:
    rest = (write.argument(1, "dim"), write.argument(2, "index"))
    return write.emit("aten::select_scatter", (write.base, write.new, *rest), write.base_spec)


def _diagonal(write: Write) -> Ref:
    rest = (write.argument(1, "offset", 0), write.argument(2, "dim1", 0), write.argument(3, "dim2", 1))
    return write.emit("aten::diagonal_scatter", (write.base, write.new, *rest), write.base_spec)


def _as_strided(write: Write) -> Ref:
    rest = (write.argument(1, "size"), write.argument(2, "stride"), write.argument(3, "storage_offset"))
    return write.emit("aten::as_strided_scatter", (write.base, write.new, *rest), write.base_spec)


def _swapped(write: Write) -> Ref:
    first, second = (0, 1) if write.call.key == "aten::t" else (write.argument(1, "dim0"), write.argument(2, "dim1"))
    if write.base_spec.rank < 2:
        return write.new
    return write.emit("aten::transpose.int", (write.new, first, second), write.base_spec)


def _permuted(write: Write) -> Ref:
    dims = [dim % write.base_spec.rank for dim in write.argument(1, "dims")]
    return write.emit("aten::permute", (write.new, [dims.index(axis) for axis in range(len(dims))]), write.base_spec)


def _moved(write: Write) -> Ref:
    source, destination = write.argument(1, "source"), write.argument(2, "destination")
    return write.emit(write.call.key, (write.new, destination, source), write.base_spec)


def _expanded(write: Write) -> Ref | None:
    """Only when nothing was repeated: writing to one memory cell twice is no write that torch allows."""
    return write.new if write.base_spec.shape == write.view_spec.shape else None


def _into(write: Write, dim: int, start: int, end: int) -> Ref:
    return write.emit("aten::slice_scatter", (write.base, write.new, dim, start, end, 1), write.base_spec)


def _split(write: Write) -> Ref | None:
    size, dim = write.argument(1, "split_size"), write.argument(2, "dim", 0)
    if not isinstance(size, int) or write.index is None:
        return None
    return _into(write, dim, size * write.index, size * (write.index + 1))


def _split_sizes(write: Write) -> Ref | None:
    sizes, dim = write.argument(1, "split_sizes"), write.argument(2, "dim", 0)
    if write.index is None or not all(isinstance(size, int) for size in sizes):
        return None
    start = sum(sizes[: write.index])
    return _into(write, dim, start, start + sizes[write.index])


def _chunk(write: Write) -> Ref | None:
    chunks, dim = write.argument(1, "chunks"), write.argument(2, "dim", 0)
    total = write.base_spec.shape[dim]
    if write.index is None or not isinstance(total, int):
        return None
    size = -(-total // chunks)
    return _into(write, dim, size * write.index, size * (write.index + 1))


def _unbind(write: Write) -> Ref | None:
    if write.index is None:
        return None
    return write.emit(
        "aten::select_scatter", (write.base, write.new, write.argument(1, "dim", 0), write.index), write.base_spec
    )


_RESHAPES = (
    "aten::view", "aten::reshape", "aten::_unsafe_view", "aten::flatten.using_ints", "aten::unflatten.int",
    "aten::squeeze", "aten::squeeze.dim", "aten::squeeze.dims", "aten::unsqueeze", "aten::view_as",
    "aten::reshape_as", "aten::ravel", "aten::_reshape_alias",
)  # fmt: skip
_SAME_WHEN_EQUAL = frozenset(
    {
        IDENTITY, "aten::detach", "aten::detach_", "aten::alias", "aten::lift_fresh", "aten::lift", "aten::contiguous",
        "aten::to.dtype", "aten::to.device", "aten::to.dtype_layout", "aten::to.other", "aten::type_as",
        "aten::expand_as", "aten::broadcast_to", "aten::requires_grad_", "aten::positive",
    }
)  # fmt: skip
_INVERSES: dict[str, Inverse] = {
    **dict.fromkeys(_RESHAPES, _reshaped),
    "aten::slice.Tensor": _slice,
    "aten::narrow": _narrow,
    "aten::select.int": _select,
    "aten::diagonal": _diagonal,
    "aten::as_strided": _as_strided,
    "aten::t": _swapped,
    "aten::transpose.int": _swapped,
    "aten::swapaxes": _swapped,
    "aten::swapdims": _swapped,
    "aten::permute": _permuted,
    "aten::movedim.int": _moved,
    "aten::movedim.intlist": _moved,
    "aten::expand": _expanded,
    "aten::split.Tensor": _split,
    "aten::split_with_sizes": _split_sizes,
    "aten::split.sizes": _split_sizes,
    "aten::chunk": _chunk,
    "aten::unbind.int": _unbind,
    "aten::view_as_real": lambda write: write.emit("aten::view_as_complex", (write.new,), write.base_spec),
    "aten::view_as_complex": lambda write: write.emit("aten::view_as_real", (write.new,), write.base_spec),
}
