"""Nested inputs and outputs: registering containers for the user, and readable names of leaves."""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree


def register_containers(value: Any) -> None:
    """Make dataclasses and Hugging Face containers inside ``value`` known to torch's pytree.

    ``transformers`` is asked only when the user has already imported it.
    """
    register_transformers()
    for item in _walk(value):
        kind = type(item)
        if dataclasses.is_dataclass(item) and kind not in pytree.SUPPORTED_NODES:
            torch.export.register_dataclass(kind, serialized_type_name=f"{kind.__module__}.{kind.__qualname__}")


def register_transformers() -> None:
    """Model outputs and caches of ``transformers``, harmless when they are registered already."""
    if "transformers" not in sys.modules:
        return
    from transformers.utils.generic import ModelOutput

    for kind in _subclasses(ModelOutput):
        if kind not in pytree.SUPPORTED_NODES:
            pytree.register_pytree_node(
                kind,
                _flatten_output,
                functools.partial(_unflatten_output, kind),
                serialized_type_name=f"{kind.__module__}.{kind.__qualname__}",
                flatten_with_keys_fn=pytree._dict_flatten_with_keys,
            )
    if "transformers.cache_utils" in sys.modules:
        _register_caches()


def _flatten_output(output: Any) -> tuple[list[Any], list[str]]:
    return list(output.values()), list(output.keys())


def _unflatten_output(kind: Any, values: Any, keys: Any) -> Any:
    return kind(**dict(zip(keys, values, strict=True)))


def _register_caches() -> None:
    from transformers.cache_utils import DynamicCache, EncoderDecoderCache
    from transformers.integrations.executorch import register_dynamic_cache_export_support

    if DynamicCache not in pytree.SUPPORTED_NODES:
        register_dynamic_cache_export_support()
    if EncoderDecoderCache not in pytree.SUPPORTED_NODES:
        names = ["self_attention_cache", "cross_attention_cache"]
        pytree.register_pytree_node(
            EncoderDecoderCache,
            lambda cache: ([getattr(cache, name) for name in names], names),
            lambda values, _: EncoderDecoderCache(*values),
            serialized_type_name="transformers.cache_utils.EncoderDecoderCache",
            flatten_with_keys_fn=lambda cache: (
                [(pytree.GetAttrKey(name), getattr(cache, name)) for name in names],
                names,
            ),
        )


def _subclasses(kind: Any) -> Iterator[Any]:
    for sub in kind.__subclasses__():
        yield sub
        yield from _subclasses(sub)


def _walk(value: Any) -> Iterator[Any]:
    yield value
    if isinstance(value, dict):
        children: list[Any] = list(value.values())
    elif isinstance(value, (list, tuple)):
        children = list(value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        children = [getattr(value, one.name) for one in dataclasses.fields(value)]
    else:
        return
    for child in children:
        yield from _walk(child)


def child_names(spec: pytree.TreeSpec) -> list[str]:
    """Names of the children of one node of a tree: keys, fields or positions."""
    count, context = spec.num_children, spec.context
    if isinstance(context, list) and len(context) == count and all(isinstance(key, (str, int)) for key in context):
        return [str(key) for key in context]
    if isinstance(context, list) and context and isinstance(context[0], list) and len(context[0]) == count:
        return [str(key) for key in context[0]]  # dataclasses and caches: (names, further facts)
    fields = getattr(context, "_fields", None)
    if fields is not None and len(fields) == count:
        return list(fields)
    return [str(index) for index in range(count)]


def leaf_paths(spec: pytree.TreeSpec, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of every leaf, in order."""
    if spec.is_leaf():
        yield path
        return
    for name, child in zip(child_names(spec), spec.children(), strict=True):
        yield from leaf_paths(child, (*path, name))


def children_of(value: Any) -> list[tuple[str, Any]] | None:
    """Named children of a container as pytree sees it; None for a leaf."""
    kind = pytree._get_node_type(value)
    if kind not in pytree.SUPPORTED_NODES:
        return None
    children, context = pytree.SUPPORTED_NODES[kind].flatten_fn(value)
    items = list(children)
    _, spec = pytree.tree_flatten(value, is_leaf=lambda item: item is not value)
    del context
    return list(zip(child_names(spec), items, strict=True))
