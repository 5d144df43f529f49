"""The user's model and inputs are afterwards what they were before."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import _pytree as pytree

# Hooks are kept in an OrderedDict: put back with the flag beside it that tells that they were set.
_CONTAINERS = (list, dict, set, OrderedDict)


@contextmanager
def state_kept(model: torch.nn.Module) -> Iterator[None]:
    """Buffers and attributes hold afterwards what they held before, on any exit."""
    before = [(value, value.detach().clone()) for value in model.buffers()]
    try:
        with attributes_kept(model):
            yield
    finally:
        with torch.no_grad():
            for value, kept in before:
                value.copy_(kept)


class Written:
    """Which attributes differ from what they were; buffers and parameters are not among them."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._before = [(path, module, dict(vars(module))) for path, module in model.named_modules()]
        self._items = {id(value): value.copy() for _, _, held in self._before for value in _containers(held)}

    def names(self) -> list[str]:
        """Dotted names of the attributes that were written, or whose list, dict or set was changed."""
        found = []
        for path, module, before in self._before:
            for name, value in vars(module).items():
                if name.startswith("_") and name in _OF_MODULES:
                    continue
                if name not in before or value is not before[name] or not self._has_its_items(value):
                    found.append(f"{path}.{name}" if path else name)
        return found

    def _has_its_items(self, value: Any) -> bool:
        items = self._items.get(id(value), value)
        if items is value:
            return True
        if isinstance(value, dict):
            return list(items) == list(value) and all(items[key] is value[key] for key in value)
        if isinstance(value, list):
            return len(items) == len(value) and all(one is other for one, other in zip(items, value, strict=True))
        return bool(items == value)


@contextmanager
def writes_recorded(model: torch.nn.Module) -> Iterator[list[str]]:
    """Yields the dotted names of attributes that are given another value inside; torch may take them back itself."""
    paths = {id(module): path for path, module in model.named_modules()}
    names: list[str] = []
    original = torch.nn.Module.__setattr__

    def record(this: torch.nn.Module, name: str, value: Any) -> None:
        path = paths.get(id(this))
        if path is not None and name not in _OF_MODULES and name not in this._buffers and name not in this._parameters:
            target = f"{path}.{name}" if path else name
            if target not in names and vars(this).get(name, _OF_MODULES) is not value and name not in this._modules:
                names.append(target)
        original(this, name, value)

    torch.nn.Module.__setattr__ = record  # type: ignore[assignment]  # restored below, on any exit
    try:
        yield names
    finally:
        torch.nn.Module.__setattr__ = original  # type: ignore[method-assign]


# What torch keeps in a module itself.
_OF_MODULES = frozenset(vars(torch.nn.Module()))


@contextmanager
def attributes_kept(model: torch.nn.Module) -> Iterator[Written]:
    """The attributes of every submodule are afterwards what they were; lists, dicts and sets have their items back."""
    modules = [(module, dict(vars(module)), _contents(vars(module))) for module in model.modules()]
    try:
        yield Written(model)
    finally:
        for module, attributes, contents in modules:
            vars(module).clear()
            vars(module).update(attributes)
            for container, items in contents:
                _restore(container, items)


def _containers(attributes: dict[str, Any]) -> list[Any]:
    return [value for value in attributes.values() if type(value) in _CONTAINERS]


def _contents(attributes: dict[str, Any]) -> list[tuple[Any, Any]]:
    """Plain containers (a module's own tables of parameters, buffers and submodules among them) with their items."""
    return [(value, value.copy()) for value in _containers(attributes)]


def _restore(container: Any, items: Any) -> None:
    if isinstance(container, list):
        container[:] = items
    else:
        container.clear()
        container.update(items)


@contextmanager
def marks_kept(inputs: Any) -> Iterator[None]:
    """Attributes that torch puts on input tensors, which dims are dynamic among them, are gone afterwards."""
    tensors = [leaf for leaf in pytree.tree_leaves(inputs) if isinstance(leaf, torch.Tensor)]
    before = [(tensor, dict(vars(tensor))) for tensor in tensors]
    try:
        yield
    finally:
        for tensor, attributes in before:
            vars(tensor).clear()
            vars(tensor).update(attributes)
