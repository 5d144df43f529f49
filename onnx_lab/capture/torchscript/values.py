"""What a TorchScript value is while its program is evaluated in part.

What is known stands for itself: int, float, bool, str, None, dtype, device, and tuples of values. What is known
only when the model runs is a ``TensorValue`` or a ``Number``. Lists, dicts and objects can be written to: they are
cells, compared by identity.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from onnx_lab.program.graph import Ref

Value = Any


@dataclass(eq=False, slots=True)
class TensorValue:
    """A tensor of the graph.

    Attributes:
        fake: its dtype, shape and memory.
        ref: its name in the graph.
        data: its elements, of a small constant.
        number: the Number (or int, float, bool) that it was made of, when it was made of one.
        wrapped: whether it is a Python number that the tracer wrote as a tensor: it takes the dtype of its partner.
        ranks: whether it stands for tensors of several ranks, which only an empty one may.
    """

    fake: torch.Tensor
    ref: Ref
    number: Value = None
    ranks: bool = False
    wrapped: bool = False
    data: torch.Tensor | None = None


@dataclass(eq=False, slots=True)
class Number:
    """An int, float or bool that is computed when the model runs.

    Attributes:
        sym: what is known of it.
        ref: its name in the graph.
        ratio: of a float that is a quotient of two ints: both, so that rounding it is exact.
    """

    sym: torch.SymInt | torch.SymFloat | torch.SymBool
    ref: Ref
    ratio: tuple[Value, Value] | None = None

    @property
    def kind(self) -> str:
        return _KINDS[type(self.sym)]


_KINDS = {torch.SymInt: "int", torch.SymFloat: "float", torch.SymBool: "bool"}


@dataclass(eq=False, slots=True)
class Maybe:
    """An optional value of which only the run tells whether it is there."""

    present: Number
    inner: Value


@dataclass(eq=False, slots=True)
class Sequence:
    """The items of a list whose length only the run tells: tensors of one dtype and rank.

    ``item`` is a fake tensor with the shape that all of them have. Numbers are held as 0-D tensors (``numbers``).
    """

    ref: Ref
    item: torch.Tensor
    numbers: bool = False


@dataclass(eq=False, slots=True)
class ListCell:
    """A list: Python items, or a Sequence."""

    content: list[Value] | Sequence


@dataclass(eq=False, slots=True)
class DictCell:
    """A dict with keys that are known."""

    content: dict[Any, Value]


@dataclass(eq=False, slots=True)
class ObjectCell:
    """A module or an object of a scripted class.

    Attributes:
        script: the object of torch (None for one that the program itself makes).
        path: its dotted name in the program.
        label: its dotted name in the user's model.
        type_name: its class.
        content: attributes that the program has written.
        initial: attributes as they were before the call, filled when they are first read.
    """

    script: Any
    path: str
    label: str
    type_name: str
    content: dict[str, Value] = field(default_factory=dict)
    initial: dict[str, Value] = field(default_factory=dict)


Cell = ListCell | DictCell | ObjectCell


@dataclass(frozen=True, slots=True)
class Text:
    """A text with parts that only the run tells: good for messages alone."""

    text: str

    def __str__(self) -> str:
        return self.text


class _Uninitialized:
    """What a variable holds on a path that never reads it."""

    def __repr__(self) -> str:
        return "uninitialized"


UNINITIALIZED = _Uninitialized()


def is_known(value: Value) -> bool:
    """Whether a value is Python data through and through."""
    if isinstance(value, tuple):
        return all(map(is_known, value))
    if isinstance(value, ListCell):
        return isinstance(value.content, list) and all(map(is_known, value.content))
    if isinstance(value, DictCell):
        return all(map(is_known, value.content.values()))
    return not isinstance(value, (TensorValue, Number, Maybe, ObjectCell, Text, _Uninitialized))


def is_number(value: Value) -> bool:
    return isinstance(value, (int, float, complex, Number))


def describe(value: Value) -> str:
    """A value's type as an error message shows it."""
    if isinstance(value, TensorValue):
        return f"a tensor {str(value.fake.dtype).removeprefix('torch.')}{list(value.fake.shape)}"
    if isinstance(value, Number):
        return f"a computed {value.kind}"
    if isinstance(value, Maybe):
        return f"None or {describe(value.inner)}"
    if isinstance(value, tuple):
        return f"({', '.join(map(describe, value))})"
    if isinstance(value, ListCell):
        if isinstance(value.content, Sequence):
            return "a list whose length only the run tells"
        return f"a list of {len(value.content)}"
    if isinstance(value, DictCell):
        return f"a dict with the keys {list(value.content)}"
    if isinstance(value, ObjectCell):
        return f"the object {value.label or value.type_name}"
    return repr(value)
