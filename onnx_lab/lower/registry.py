"""Which function lowers which operator key, from which opset on."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from onnx_lab.errors import RegistrationError
from onnx_lab.program.op_key import OpKey

Lowering = Callable[..., Any]
F = TypeVar("F", bound=Lowering)


class Registry:
    """Lowerings by operator key; for each key at most one per ``since``."""

    def __init__(self) -> None:
        self._table: dict[str, list[tuple[int, Lowering]]] = {}

    def add(self, key: str, function: Lowering, since: int = 1) -> None:
        """Register ``function`` for ``key`` from opset ``since`` on.

        Raises:
            RegistrationError: when the key is malformed or already has a lowering for ``since``.
        """
        if "::" not in key:
            raise RegistrationError(f"{key!r} is no operator key", hint='write it as "namespace::name.overload"')
        entries = self._table.setdefault(OpKey(key), [])
        if any(have == since for have, _ in entries):
            raise RegistrationError(f"{key} already has a lowering for opset {since}", op=key)
        bisect.insort(entries, (since, function), key=lambda entry: entry[0])

    def find(self, key: str, opset: int, overrides: Mapping[str, Lowering] | None = None) -> Lowering | None:
        """The lowering with the newest ``since`` that is not above ``opset``; overrides come first."""
        if overrides and key in overrides:
            return overrides[key]
        chosen = None
        for since, function in self._table.get(key, ()):
            if since <= opset:
                chosen = function
        return chosen

    def since(self, key: str) -> list[int]:
        """The opsets for which ``key`` has variants, ascending."""
        return [since for since, _ in self._table.get(key, ())]

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def entries(self) -> Iterator[tuple[str, int, Lowering]]:
        for key, found in self._table.items():
            for since, function in found:
                yield key, since, function


REGISTRY = Registry()
# Used when an operand or the result is complex: lowerings that receive Complex operands, and keys whose
# ordinary lowering is run on the real and on the imaginary parts.
COMPLEX_REGISTRY = Registry()
PART_WISE: set[str] = set()


def lowering(*keys: str, since: int = 1) -> Callable[[F], F]:
    """Register the decorated function for one or more operator keys.

    The function is called as ``fn(ctx, *schema arguments, **keyword-only arguments)``: tensors and
    symbolic sizes are ``ir.Value``, dtypes are ``ir.DataType``, all else is plain Python. It returns
    one value, or a tuple when the operator has several results.
    """

    def register(function: F) -> F:
        for key in keys:
            REGISTRY.add(key, function, since)
        return function

    return register


def complex_lowering(*keys: str, since: int = 1) -> Callable[[F], F]:
    """Register the decorated function for calls of these keys with a complex operand or result."""

    def register(function: F) -> F:
        for key in keys:
            COMPLEX_REGISTRY.add(key, function, since)
        return function

    return register


def part_wise(*keys: str) -> None:
    """These operators act on real and imaginary parts alike: f(a + ib) = f(a) + i f(b)."""
    PART_WISE.update(keys)
