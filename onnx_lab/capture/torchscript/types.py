"""isinstance() on values of an evaluation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnx_lab.capture.torchscript.graphs import class_name
from onnx_lab.capture.torchscript.values import DictCell, ListCell, Number, ObjectCell, Sequence, TensorValue, Value


def has_type(value: Value, type_: Any) -> bool:
    """Whether a value is of a type of TorchScript; an empty list is one of any items."""
    kind = type_.kind()
    if kind in ("OptionalType", "UnionType"):
        return (value is None and kind == "OptionalType") or any(has_type(value, one) for one in type_.containedTypes())
    test = _TESTS.get(kind)
    return test is not None and test(value, type_)


def _number(kind: str) -> Callable[[Value, Any], bool]:
    def test(value: Value, type_: Any) -> bool:
        return (value.kind if isinstance(value, Number) else type(value).__name__) == kind

    return test


def _is_list(value: Value, type_: Any) -> bool:
    if not isinstance(value, ListCell):
        return False
    [item] = type_.containedTypes()
    if isinstance(value.content, Sequence):
        return bool(item.kind() == "TensorType") is not value.content.numbers
    return all(has_type(one, item) for one in value.content)


def _is_tuple(value: Value, type_: Any) -> bool:
    if not isinstance(value, tuple):
        return False
    parts = list(type_.containedTypes())
    return len(parts) == len(value) and all(map(has_type, value, parts))


def _is_dict(value: Value, type_: Any) -> bool:
    if not isinstance(value, DictCell):
        return False
    key, item = type_.containedTypes()
    return all(has_type(one, key) and has_type(other, item) for one, other in value.content.items())


_TESTS: dict[str, Callable[[Value, Any], bool]] = {
    "TensorType": lambda value, type_: isinstance(value, TensorValue),
    "IntType": _number("int"),
    "FloatType": _number("float"),
    "BoolType": _number("bool"),
    "NumberType": lambda value, type_: any(_number(kind)(value, type_) for kind in ("int", "float", "complex")),
    "StringType": lambda value, type_: isinstance(value, str),
    "NoneType": lambda value, type_: value is None,
    "ListType": _is_list,
    "TupleType": _is_tuple,
    "DictType": _is_dict,
    "ClassType": lambda value, type_: isinstance(value, ObjectCell) and value.type_name == class_name(type_),
    "AnyType": lambda value, type_: True,
    "AnyListType": lambda value, type_: isinstance(value, ListCell),
    "AnyTupleType": lambda value, type_: isinstance(value, tuple),
}
