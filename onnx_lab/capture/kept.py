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


@contextmanager
def attributes_kept(model: torch.nn.Module) -> Iterator[None]:
    """The attributes of every submodule are afterwards what they were; lists, dicts and sets have their items back."""
    modules = [(module, dict(vars(module)), _contents(vars(module))) for module in model.modules()]
    try:
        yield
    finally:
        for module, attributes, contents in modules:
            vars(module).clear()
            vars(module).update(attributes)
            for container, items in contents:
                _restore(container, items)


def _contents(attributes: dict[str, Any]) -> list[tuple[Any, Any]]:
    """Plain containers (a module's own tables of parameters, buffers and submodules among them) with their items."""
    return [(value, value.copy()) for value in attributes.values() if type(value) in _CONTAINERS]


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
