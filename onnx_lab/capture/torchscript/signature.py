"""What a scripted program takes and returns: as a Python signature, and as values of the evaluation."""

from __future__ import annotations

import collections
import inspect
import re
from collections.abc import Iterator
from typing import Any

import torch

from onnx_lab.capture.torchscript.tape import Tape
from onnx_lab.capture.torchscript.values import DictCell, ListCell, Maybe, Sequence, TensorValue, Value, describe
from onnx_lab.errors import CaptureError, InputError

# Parameters of traced programs may have names that Python does not allow: 'input.1'.
_NAME = re.compile(r"\W")


def script_signature(schema: Any, *, method: bool) -> inspect.Signature:
    """The Python signature of a scripted function or method (without self)."""
    parameters = []
    for argument in schema.arguments[1 if method else 0 :]:
        default = argument.default_value if argument.has_default_value() else inspect.Parameter.empty
        kind = inspect.Parameter.KEYWORD_ONLY if argument.kwarg_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters.append(inspect.Parameter(_NAME.sub("_", argument.name), kind, default=default))
    return inspect.Signature(parameters)


def arguments(tape: Tape, schema: Any, bound: dict[str, Any], leaves: Iterator[Value], *, method: bool) -> list[Value]:
    """The values of all parameters: given ones from ``leaves`` in order, the others by their defaults.

    Raises:
        InputError: a value that is not of the declared type.
    """
    values = []
    for argument in schema.arguments[1 if method else 0 :]:
        name = _NAME.sub("_", argument.name)
        if name in bound:
            value = _structured(tape, bound[name], leaves)
            values.append(_checked(name, argument, bound[name], value))
        else:
            values.append(_plain(tape, argument.default_value))
    return values


def _structured(tape: Tape, given: Any, leaves: Iterator[Value]) -> Value:
    if isinstance(given, list):
        return tape.list([_structured(tape, item, leaves) for item in given])
    if isinstance(given, tuple):
        return tuple(_structured(tape, item, leaves) for item in given)
    if isinstance(given, dict):
        return tape.cell(DictCell({key: _structured(tape, item, leaves) for key, item in given.items()}))
    return next(leaves) if isinstance(given, torch.Tensor) else given


def _plain(tape: Tape, given: Any) -> Value:
    if isinstance(given, list):
        return tape.list([_plain(tape, item) for item in given])
    return given


_PLAIN: dict[str, Any] = {"int": int, "float": (int, float), "bool": bool, "str": str}


def _checked(name: str, argument: Any, given: Any, value: Value) -> Value:
    kind = str(argument.type)
    if kind == "Tensor" and not isinstance(given, torch.Tensor):
        raise InputError(f"{name} is {given!r}, but the scripted program takes a tensor", hint="pass torch.tensor(...)")
    if kind in ("int", "float", "bool", "str") and isinstance(given, torch.Tensor):
        raise InputError(
            f"{name} is a tensor, but the scripted program takes a plain {kind}",
            hint=f"pass {name}={kind}(...): it becomes a constant of the model",
        )
    wanted = _PLAIN.get(kind)
    if wanted is not None and not (isinstance(given, wanted) and isinstance(given, bool) == (kind == "bool")):
        raise InputError(
            f"{name} is {given!r}, but the scripted program takes a plain {kind}", hint=f"pass {name}={kind}(...)"
        )
    if kind == "float" and isinstance(given, int) and not isinstance(given, bool):
        return float(given)
    return value


# -- results ----------------------------------------------------------------------------------------


class Leaf:
    """A tensor or number of the result."""

    def __init__(self, value: Value) -> None:
        self.value = value


def structure(tape: Tape, value: Value, type_: Any) -> Any:
    """The result as Python containers with a Leaf for every tensor and number.

    Raises:
        CaptureError: what it holds can be no output.
    """
    if isinstance(value, tuple):
        parts = [structure(tape, item, kind) for item, kind in zip(value, _parts(type_, len(value)), strict=True)]
        fields = _fields(type_)
        return collections.namedtuple("Result", fields)(*parts) if fields else tuple(parts)  # noqa: PYI024  made on the fly
    if isinstance(value, ListCell) and not isinstance(value.content, Sequence):
        return [structure(tape, item, None) for item in value.content]
    if isinstance(value, DictCell):
        return {key: structure(tape, item, None) for key, item in value.content.items()}
    if isinstance(value, (ListCell, Maybe)):
        raise CaptureError(
            f"the result has {describe(value)}",
            hint="return torch.stack(items) of a list; for an optional tensor, an empty one in place of None",
        )
    if isinstance(value, TensorValue) and value.ranks:
        raise CaptureError(
            f"the result is an empty tensor on one path and has {value.fake.dim()} axes on another",
            hint="start with an empty tensor of the same number of axes",
        )
    return None if value is None else Leaf(value)


def _parts(type_: Any, count: int) -> list[Any]:
    elements = getattr(type_, "elements", None)
    return list(elements()) if elements is not None else [None] * count


def _fields(type_: Any) -> list[str]:
    """Names of the fields when a tuple type is that of a NamedTuple."""
    match = re.match(r"NamedTuple\((.*)\)$", str(type_)) if type_ is not None else None
    if match is None:
        return []
    return re.findall(r"(\w+) : ", match[1])
