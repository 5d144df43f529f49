"""Where paths meet: what the values of several paths have in common, and how each is handed out of its block.

A template says which parts of a value are the same on every path and which become results of the If or states of
the Loop. ``unify`` makes the template of two values, ``leaves`` takes a value apart by it, ``build`` puts one together
from results.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from onnx_lab.capture.torchscript.sequences import as_sequence
from onnx_lab.capture.torchscript.tape import Tape, same_value
from onnx_lab.capture.torchscript.values import (
    UNINITIALIZED,
    DictCell,
    ListCell,
    Maybe,
    Number,
    ObjectCell,
    Sequence,
    TensorValue,
    Value,
    describe,
    is_known,
    is_number,
)
from onnx_lab.errors import CaptureError
from onnx_lab.program.graph import Ref
from onnx_lab.program.spec import DType


@dataclass(frozen=True, slots=True)
class Same:
    """The same value on every path."""

    value: Value


@dataclass(frozen=True, slots=True)
class Unread:
    """A value that no path has set yet."""


@dataclass(frozen=True, slots=True)
class TensorHole:
    """A tensor; ``shape`` has an int or a known expression where all paths agree, else None."""

    dtype: torch.dtype
    shape: tuple[Any, ...]
    ranks: bool = False
    ones: frozenset[int] = frozenset()

    @classmethod
    def like(cls, value: TensorValue) -> TensorHole:
        """The hole for any tensor of the dtype and shape of this one."""
        return _hole(value.fake, value.ranks)


@dataclass(frozen=True, slots=True)
class NumberHole:
    kind: str


@dataclass(frozen=True, slots=True)
class SequenceHole:
    """A list of unknown length; ``item`` is None as long as all lists seen are empty."""

    item: TensorHole | None
    numbers: str | None = None


@dataclass(frozen=True, slots=True)
class MaybeHole:
    inner: Any


@dataclass(frozen=True, slots=True)
class TupleOf:
    parts: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of known length, made inside."""

    parts: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class DictOf:
    keys: tuple[Any, ...]
    parts: tuple[Any, ...]


Template = Any
_DTYPE = {"int": torch.int64, "float": torch.float64, "bool": torch.bool}


def template_of(value: Value) -> Template:
    """The template in which nothing of a value is open."""
    return Unread() if value is UNINITIALIZED else Same(value)


def spread(tape: Tape, cell: ListCell) -> Sequence:
    """The list that a cell holds as a value of the graph, for an index that only the run tells.

    Raises:
        CaptureError: its items have several types.
    """
    if isinstance(cell.content, Sequence):
        return cell.content
    return as_sequence(tape, cell.content, unify_contents(SequenceHole(None), cell.content, tape))


# -- unification ------------------------------------------------------------------------------------


def unify(template: Template, value: Value, tape: Tape) -> Template:
    """The least general template that also takes ``value``.

    Raises:
        CaptureError: no graph value can hold both.
    """
    if value is UNINITIALIZED:
        # The other side alone has a value: it is handed out of its block.
        return template if not isinstance(template, Same) or is_known(template.value) else opened(template.value)
    if isinstance(template, Unread):
        return opened(value)
    if isinstance(template, Same):
        if same_value(template.value, value):
            return template
        return _unify_values(template.value, value, tape)
    if isinstance(template, MaybeHole):
        inner = value.inner if isinstance(value, Maybe) else value
        return template if inner is None else MaybeHole(unify(template.inner, inner, tape))
    if value is None or isinstance(value, Maybe):
        inner = template if value is None else unify(template, value.inner, tape)
        return MaybeHole(inner)
    return _unify_open(template, value, tape)


def _unify_values(one: Value, other: Value, tape: Tape) -> Template:
    if one is None or other is None:
        return MaybeHole(opened(other if one is None else one)) if one is not other else Same(None)
    if isinstance(one, ObjectCell) or isinstance(other, ObjectCell):
        raise _differ(tape, describe(one), describe(other))
    template = shell(one)
    if isinstance(template, Same):  # text, dtypes and the like have no graph value
        raise _differ(tape, describe(one), describe(other))
    return unify(template, other, tape)


def shell(value: Value) -> Template:
    """The template of a value whose outermost layer alone is open, to be unified with another value."""
    if isinstance(value, tuple):
        return TupleOf(tuple(map(template_of, value)))
    if isinstance(value, ListCell) and isinstance(value.content, list):
        return ListOf(tuple(map(template_of, value.content)))
    if isinstance(value, DictCell):
        return DictOf(tuple(value.content), tuple(map(template_of, value.content.values())))
    return opened(value)


def opened(value: Value) -> Template:
    """The template that holds any value like this one: nothing in it is taken from the path that made it."""
    if isinstance(value, TensorValue):
        return _hole(value.fake, value.ranks)
    if is_number(value):
        return NumberHole(_kind(value))
    if isinstance(value, Maybe):
        return MaybeHole(opened(value.inner))
    if isinstance(value, tuple):
        return TupleOf(tuple(map(opened, value)))
    if isinstance(value, ListCell):
        if isinstance(value.content, Sequence):
            return _sequence_hole(value.content)
        return ListOf(tuple(map(opened, value.content)))
    if isinstance(value, DictCell):
        return DictOf(tuple(value.content), tuple(map(opened, value.content.values())))
    return Unread() if value is UNINITIALIZED else Same(value)


def freed(template: Template) -> Template:
    """A template without values of the graph: what was the same on all paths is open as well."""
    if isinstance(template, Same):
        return template if is_known(template.value) else opened(template.value)
    if isinstance(template, MaybeHole):
        return MaybeHole(freed(template.inner))
    if isinstance(template, (TupleOf, ListOf)):
        return type(template)(tuple(map(freed, template.parts)))
    if isinstance(template, DictOf):
        return DictOf(template.keys, tuple(map(freed, template.parts)))
    return template


def _unify_open(template: Template, value: Value, tape: Tape) -> Template:
    if isinstance(template, TensorHole) and isinstance(value, TensorValue):
        return _unify_tensors(template, value, tape)
    if isinstance(template, NumberHole) and is_number(value):
        if template.kind != _kind(value):
            raise _differ(tape, template.kind, _kind(value))
        return template
    if isinstance(template, TupleOf) and isinstance(value, tuple) and len(value) == len(template.parts):
        return TupleOf(tuple(unify(part, item, tape) for part, item in zip(template.parts, value, strict=True)))
    if isinstance(template, (ListOf, SequenceHole)) and isinstance(value, ListCell):
        return unify_contents(template, value.content, tape)
    if isinstance(template, DictOf) and isinstance(value, DictCell) and tuple(value.content) == template.keys:
        items = zip(template.parts, value.content.values(), strict=True)
        return DictOf(template.keys, tuple(unify(part, item, tape) for part, item in items))
    raise _differ(tape, _say(template), describe(value))


def unify_contents(template: Template, content: list[Value] | Sequence, tape: Tape) -> Template:
    """``unify`` for what lists hold."""
    if isinstance(template, ListOf):
        if isinstance(content, list) and len(content) == len(template.parts):
            return ListOf(tuple(unify(part, item, tape) for part, item in zip(template.parts, content, strict=True)))
        template = _as_sequence(template.parts, tape)
    if isinstance(content, Sequence):
        other = _sequence_hole(content)
    else:
        other = _as_sequence(tuple(map(template_of, content)), tape)
    return _join_sequences(template, other, tape)


def _as_sequence(parts: tuple[Template, ...], tape: Tape) -> SequenceHole:
    """A list of unknown length that holds these."""
    item: TensorHole | None = None
    numbers: str | None = None
    for part in parts:
        made = opened(part.value) if isinstance(part, Same) else part
        if isinstance(made, NumberHole):
            numbers, made = made.kind, TensorHole(_DTYPE[made.kind], ())
        if not isinstance(made, TensorHole):
            raise CaptureError(
                "a list whose length only the run tells holds something else than tensors or numbers",
                source=tape.source,
                seen=_say(made),
                hint="keep one list for each part of the items",
            )
        item = made if item is None else _join(item, made, tape)
    return SequenceHole(item, numbers)


def _sequence_hole(content: Sequence) -> SequenceHole:
    kind = next((kind for kind, dtype in _DTYPE.items() if dtype is content.item.dtype), None)
    return SequenceHole(_hole(content.item, False), kind if content.numbers else None)


def _join_sequences(one: SequenceHole, other: SequenceHole, tape: Tape) -> SequenceHole:
    if one.item is None or other.item is None:
        return other if one.item is None else one
    return SequenceHole(_join(one.item, other.item, tape), one.numbers)


def _hole(fake: torch.Tensor, ranks: bool) -> TensorHole:
    ones = frozenset(axis for axis, size in enumerate(fake.shape) if _is(size, 1))
    return TensorHole(fake.dtype, tuple(map(_dim, fake.shape)), ranks, ones)


def _unify_tensors(hole: TensorHole, value: TensorValue, tape: Tape) -> TensorHole:
    return _join(hole, _hole(value.fake, value.ranks), tape)


def _join(one: TensorHole, other: TensorHole, tape: Tape) -> TensorHole:
    if one.dtype != other.dtype:
        raise _differ(tape, _say(one), _say(other), "give both the same dtype: y = y.to(x.dtype)")
    if len(one.shape) != len(other.shape):
        if _is_empty(one) or _is_empty(other):
            # An empty tensor stands for "nothing yet": it is one of the other's rank with no rows.
            kept = other if _is_empty(one) else one
            known = [size if isinstance(size, int) else None for size in kept.shape[1:]]
            return TensorHole(kept.dtype, (None, *known), True, frozenset())
        raise _differ(tape, _say(one), _say(other), "give both the same number of axes")
    shape = tuple(a if a is not None and a == b else None for a, b in zip(one.shape, other.shape, strict=True))
    return TensorHole(one.dtype, shape, one.ranks or other.ranks, one.ones | other.ones)


def _is_empty(hole: TensorHole) -> bool:
    return hole.shape == (0,)


def _dim(size: Any) -> Any:
    return size if isinstance(size, int) else _Expression(size)


class _Expression:
    """A symbolic size, equal to another when its expression is."""

    def __init__(self, size: Any) -> None:
        self.size = size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Expression) and bool(self.size.node.expr == other.size.node.expr)

    def __hash__(self) -> int:
        return hash(self.size.node.expr)


def _is(size: Any, number: int) -> bool:
    return isinstance(size, int) and size == number


def _kind(value: Value) -> str:
    if isinstance(value, Number):
        return value.kind
    if isinstance(value, complex):
        return "complex"
    return type(value).__name__


# -- leaves -----------------------------------------------------------------------------------------


def fakes(template: Template, tape: Tape, known: dict[Any, Any] | None = None) -> Iterator[Any]:
    """What is known of each leaf: new fakes and numbers, in the order of ``leaves``."""
    known = {} if known is None else known
    if isinstance(template, TensorHole):
        yield tape.fake(template.dtype, [_new_dim(template, axis, tape) for axis in range(len(template.shape))])
    elif isinstance(template, NumberHole):
        yield tape.fresh(template.kind)
    elif isinstance(template, SequenceHole):
        item = template.item or TensorHole(torch.float32, ())
        shape = [_new_dim(item, axis, tape) for axis in range(len(item.shape))]
        yield Sequence(Ref(""), tape.fake(item.dtype, shape), template.numbers is not None)
    elif isinstance(template, MaybeHole):
        yield tape.fresh("bool")
        yield from fakes(template.inner, tape)
    elif isinstance(template, (TupleOf, ListOf, DictOf)):
        for part in template.parts:
            yield from fakes(part, tape)


def _new_dim(hole: TensorHole, axis: int, tape: Tape) -> Any:
    size = hole.shape[axis]
    if size is not None:
        return size.size if isinstance(size, _Expression) else size
    made = tape.fresh("int", size=True)
    if axis in hole.ones:
        tape.broadcasting.possibly_one.add(made.node.expr)
    return made


def leaves(template: Template, value: Value, tape: Tape) -> Iterator[Any]:
    """The arguments that hand out the open parts of a value; what is needed for them is emitted where the tape is."""
    if isinstance(template, TensorHole):
        yield _tensor_leaf(template, value, tape)
    elif isinstance(template, NumberHole):
        yield (_ZERO[template.kind] if value is UNINITIALIZED else value.ref if isinstance(value, Number) else value)
    elif isinstance(template, SequenceHole):
        yield _sequence_leaf(template, value.content if isinstance(value, ListCell) else value, tape)
    elif isinstance(template, MaybeHole):
        if isinstance(value, Maybe):
            yield value.present.ref
            yield from leaves(template.inner, value.inner, tape)
        else:
            absent = value is None or value is UNINITIALIZED
            yield not absent
            yield from leaves(template.inner, UNINITIALIZED if absent else value, tape)
    elif isinstance(template, (TupleOf, ListOf, DictOf)):
        yield from _part_leaves(template, value, tape)


_ZERO: dict[str, Any] = {"int": 0, "float": 0.0, "bool": False}


def _part_leaves(template: Any, value: Value, tape: Tape) -> Iterator[Any]:
    items: Any = value
    if value is UNINITIALIZED:
        items = [UNINITIALIZED] * len(template.parts)
    elif isinstance(value, DictCell):
        items = value.content.values()
    elif isinstance(value, ListCell):
        items = value.content
    for part, item in zip(template.parts, items, strict=True):
        yield from leaves(part, item, tape)


def _tensor_leaf(hole: TensorHole, value: Value, tape: Tape) -> Any:
    if isinstance(value, TensorValue) and value.fake.dim() == len(hole.shape):
        return value.ref
    # Nothing was set on this path, or an empty tensor of another rank: an empty one of the rank that is needed.
    shape = empty_shape(hole)
    dtype = DType(str(hole.dtype).removeprefix("torch."))
    made = tape.fake(hole.dtype, shape)
    filled = tape.emit("aten::full", (shape, 0), made, kwargs={"dtype": dtype}, name="unset")
    return filled.ref


def empty_shape(hole: TensorHole) -> list[int]:
    """The shape of an empty tensor that a hole takes: sizes that it does not tell are 0."""
    return [size if isinstance(size, int) else 0 for size in hole.shape]


def _sequence_leaf(hole: SequenceHole, content: Any, tape: Tape) -> Any:
    return as_sequence(tape, [] if content is UNINITIALIZED else content, hole).ref


# -- putting together -------------------------------------------------------------------------------


def build(template: Template, results: Iterator[Any], tape: Tape) -> Value:
    """The value made of results that came in the order of ``leaves``."""
    if isinstance(template, Same):
        return template.value
    if isinstance(template, Unread):
        return UNINITIALIZED
    if isinstance(template, TensorHole):
        value = next(results)
        value.ranks = template.ranks
        return value
    if isinstance(template, NumberHole):
        return next(results)
    if isinstance(template, SequenceHole):
        return tape.cell(ListCell(next(results)))
    if isinstance(template, MaybeHole):
        present = next(results)
        return Maybe(present, build(template.inner, results, tape))
    parts = [build(part, results, tape) for part in template.parts]
    if isinstance(template, TupleOf):
        return tuple(parts)
    if isinstance(template, ListOf):
        return tape.list(parts)
    return tape.cell(DictCell(dict(zip(template.keys, parts, strict=True))))


# -- errors -----------------------------------------------------------------------------------------


def _say(template: Template) -> str:
    if isinstance(template, Same):
        return describe(template.value)
    if isinstance(template, TensorHole):
        dims = ["?" if size is None else str(getattr(size, "size", size)) for size in template.shape]
        return f"a tensor {str(template.dtype).removeprefix('torch.')}[{', '.join(dims)}]"
    if isinstance(template, NumberHole):
        return f"a {template.kind}"
    if isinstance(template, (TupleOf, ListOf)):
        return f"a {'tuple' if isinstance(template, TupleOf) else 'list'} of {len(template.parts)}"
    if isinstance(template, DictOf):
        return f"a dict with the keys {list(template.keys)}"
    return type(template).__name__.removesuffix("Hole").lower()


def _differ(tape: Tape, one: str, other: str, hint: str = "") -> CaptureError:
    return CaptureError(
        "a branch or loop that only the run decides gives a variable values that no graph value can hold",
        source=tape.source,
        seen=f"{one} on one path, {other} on another",
        hint=hint or "make the variable of one type on every path, or the condition known when exporting",
    )
