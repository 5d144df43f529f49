"""What torch's schemas say of an operator: which overload it is, what it writes, what aliases what."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload

from onnx_lab.program.graph import Call
from onnx_lab.program.op_key import OpKey


@dataclass(frozen=True, slots=True)
class Aliasing:
    """Alias marks of one schema.

    Attributes:
        writes: names of the arguments that are written.
        views: names of the arguments that a result may share memory with, without a write.
    """

    writes: tuple[str, ...]
    views: tuple[str, ...]


@functools.cache
def resolve(key: str) -> OpOverload | None:
    """The torch overload of a key; None when torch has no such operator."""
    parts = OpKey(key)
    try:
        packet = getattr(getattr(torch.ops, parts.namespace), parts.name)
        return getattr(packet, parts.overload or "default")
    except AttributeError:
        return None


@functools.cache
def argument_names(key: str) -> tuple[str, ...]:
    """Names of all arguments in schema order, keyword-only ones last; empty without a schema."""
    overload = resolve(key)
    return () if overload is None else tuple(argument.name for argument in overload._schema.arguments)


def bound_arguments(call: Call) -> dict[str, Any]:
    """The arguments that a call gives, by their names in the schema."""
    return dict(zip(argument_names(call.key), call.args, strict=False)) | call.kwargs


@functools.cache
def aliasing(key: str) -> Aliasing:
    """What a key writes and what its results may alias; nothing for a key without a schema."""
    overload = resolve(key)
    if overload is None:
        return Aliasing((), ())
    arguments = [argument for argument in overload._schema.arguments if argument.alias_info is not None]
    return Aliasing(
        tuple(argument.name for argument in arguments if _writes(argument)),
        tuple(argument.name for argument in arguments if not _writes(argument)),
    )


def _names(overload: OpOverload, without: tuple[str, ...] = ()) -> list[str]:
    """Argument names; the first is called ``self`` in one form of an operator and ``input`` in the other."""
    names = [argument.name for argument in overload._schema.arguments if argument.name not in without]
    return ["self", *names[1:]] if names[:1] == ["input"] else names


def _writes(argument: Any) -> bool:
    return bool(argument.alias_info.is_write)


@functools.cache
def functional_key(key: str) -> OpKey | None:
    """The overload that computes what an in-place or ``out=`` key writes; None when there is none."""
    parts, overload = OpKey(key), resolve(key)
    if overload is None:
        return None
    writes = aliasing(key).writes
    in_place = writes == (overload._schema.arguments[0].name,)
    if not in_place and any(a.name in writes and not a.kwarg_only for a in overload._schema.arguments):
        return None  # running statistics and the like: no out= argument that could be left out
    wanted = _names(overload, () if in_place else writes)
    stem = parts.name
    if in_place and stem.startswith("__i") and stem.endswith("__"):
        names = ["__" + stem[3:]]
    else:
        names = [stem.removesuffix("_"), f"{stem.removesuffix('_')}_functional"] if in_place else [stem]
    for name in names:
        packet = getattr(getattr(torch.ops, parts.namespace), name, None)
        if packet is None:
            continue
        ordered = sorted(packet.overloads(), key=lambda one: one != (parts.overload or "default"))
        for one in ordered:
            candidate = getattr(packet, one)
            found = OpKey(candidate.name())
            if _names(candidate) == wanted and not aliasing(found).writes:
                return found
    return None


def dtype_of(name: str) -> Any:
    """A torch dtype by its name without prefix."""
    return getattr(torch, name)
