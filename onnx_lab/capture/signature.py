"""CallSignature: how a call's arguments and result become the model's inputs and outputs."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnx_lab.capture.trees import leaf_paths, register_containers
from onnx_lab.errors import InputError


@dataclass(slots=True)
class CallSignature:
    """The structure of one call.

    Attributes:
        parameters: names of the top-level arguments that were given, in signature order.
        names: for every leaf of the arguments its name; None for one that is no input of the model.
        spec: tree of the arguments by parameter.
        baked: for leaves that are no inputs, the value that the model holds.
        forward: ``inspect.Signature`` of the model's forward.
        output_names: names of the outputs (set when the graph is known).
        output_leaves: which leaves of the result are outputs.
    """

    parameters: list[str]
    names: list[str | None]
    spec: pytree.TreeSpec
    baked: list[Any]
    forward: inspect.Signature
    output_names: list[str]
    output_leaves: list[int]

    def flatten_inputs(self, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The model's inputs by name, for arguments of the example's structure.

        Raises:
            InputError: another structure, or another value where the model holds a constant.
        """
        bound = bind(self.forward, args, kwargs or {})
        register_containers(bound)
        leaves, spec = pytree.tree_flatten(bound)
        if spec != self.spec:
            raise InputError(
                "these inputs do not have the structure of the example's",
                seen=describe(bound),
                hint=f"give inputs like {', '.join(self.parameters)} in the export",
            )
        found = {}
        for name, leaf, baked, path in zip(self.names, leaves, self.baked, leaf_paths(spec), strict=True):
            if name is not None:
                if not isinstance(leaf, torch.Tensor):
                    raise InputError(f"{'.'.join(path)} is {describe(leaf)}; the example had a tensor there")
                found[name] = leaf
            elif not _same(leaf, baked):
                raise InputError(
                    f"{'.'.join(path)}={leaf!r}, but the model was exported with {baked!r}",
                    hint="plain Python values are constants of the exported model: pass a tensor, or export again",
                )
        return found

    def flatten_outputs(self, value: Any) -> list[Any]:
        """Tensors (or numbers) of an eager result, aligned with the model's outputs."""
        register_containers(value)
        leaves = pytree.tree_leaves(value)
        return [leaves[index] for index in self.output_leaves]


def _same(leaf: Any, baked: Any) -> bool:
    if isinstance(leaf, torch.Tensor) or isinstance(baked, torch.Tensor):
        return False
    return bool(leaf == baked)


def bind(signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by parameter name, in signature order.

    Raises:
        InputError: forward does not take these arguments.
    """
    try:
        return dict(signature.bind(*args, **kwargs).arguments)
    except TypeError as error:
        raise InputError(
            f"the model's forward does not take these inputs: {error}",
            seen=f"{len(args)} positional, keywords {sorted(kwargs) or 'none'}",
            hint=f"forward{signature} is what it takes",
        ) from error


def read_signature(
    model: Any, args: Sequence[Any], kwargs: Mapping[str, Any], forward: inspect.Signature | None = None
) -> CallSignature:
    """The structure of a call of ``model`` with these example inputs; ``forward`` is given where Python has none.

    Raises:
        InputError: forward does not take them.
    """
    forward = inspect.signature(model.forward) if forward is None else forward
    bound = bind(forward, args, kwargs)
    register_containers(bound)
    leaves, spec = pytree.tree_flatten(bound)
    _refuse_layouts(spec, leaves)
    names: list[str | None] = []
    taken: set[str] = set()
    for path, leaf in zip(leaf_paths(spec), leaves, strict=True):
        names.append(_unique(path, forward, taken) if isinstance(leaf, torch.Tensor) else None)
    baked = [None if name is not None else leaf for name, leaf in zip(names, leaves, strict=True)]
    return CallSignature(list(bound), names, spec, baked, forward, [], [])


def _refuse_layouts(spec: pytree.TreeSpec, leaves: Sequence[Any]) -> None:
    for path, leaf in zip(leaf_paths(spec), leaves, strict=True):
        if isinstance(leaf, torch.Tensor) and (leaf.layout is not torch.strided or leaf.is_quantized):
            kind = "quantized" if leaf.is_quantized else str(leaf.layout).removeprefix("torch.")
            raise InputError(
                f"{'.'.join(path)} is a {kind} tensor: inputs of an ONNX model are dense",
                seen=describe(leaf),
                hint="pass x.dequantize()" if leaf.is_quantized else "pass x.to_dense(), or its indices and values",
            )


def _unique(path: tuple[str, ...], forward: inspect.Signature, taken: set[str]) -> str:
    parameter = forward.parameters.get(path[0])
    parts = path
    if parameter is not None and parameter.kind is parameter.VAR_KEYWORD and len(path) > 1:
        parts = path[1:]  # forward(**kwargs): the caller's own keywords
    stem = name = "_".join(parts).replace(".", "_")
    number = 1
    while name in taken:
        name, number = f"{stem}_{number}", number + 1
    taken.add(name)
    return name


def rename_inputs(signature: CallSignature, asked: Sequence[str] | None) -> None:
    """Put the names that the user asked for on the input tensors.

    Raises:
        InputError: too many names, or one twice.
    """
    _check_names(asked, sum(name is not None for name in signature.names), "input")
    rest = list(asked or ())
    for index, name in enumerate(signature.names):
        if name is not None and rest:
            signature.names[index] = rest.pop(0)
    final = [name for name in signature.names if name is not None]
    if asked and (double := next((name for name in final if final.count(name) > 1), None)):
        raise InputError(f"two inputs would be called {double}", hint="choose input_names that differ")


def name_outputs(signature: CallSignature, out_spec: pytree.TreeSpec, kept: Sequence[int], asked: Any) -> None:
    """Names of the outputs: the asked ones, else keys, fields and positions of the result.

    Raises:
        InputError: too many names, or one twice.
    """
    _check_names(asked, len(kept), "output")
    if twice := next((name for name in asked or () if name in signature.names), None):
        raise InputError(f"an input and an output would both be called {twice}", hint="choose output_names that differ")
    paths = list(leaf_paths(out_spec))
    taken = {name for name in signature.names if name is not None}
    rest = list(asked or ())
    for index in kept:
        if rest:
            name = rest.pop(0)
        else:
            parts = paths[index]
            stem = "_".join(parts).replace(".", "_") if parts else ""
            stem = "output" if not stem else f"output_{stem}" if stem[0].isdigit() else stem
            name, number = stem, 1
            while name in taken:
                name, number = f"{stem}_{number}" if number > 1 else f"{stem}_out", number + 1
        taken.add(name)
        signature.output_names.append(name)
        signature.output_leaves.append(index)


def _check_names(asked: Sequence[str] | None, count: int, what: str) -> None:
    if asked is None:
        return
    if isinstance(asked, str):
        raise InputError(f"{what}_names is a string", hint=f"give a list: {what}_names=[{asked!r}]")
    if unusable := [name for name in asked if not isinstance(name, str) or not name]:
        raise InputError(f"{what}_names has {unusable[0]!r}, which is no name", hint="give non-empty strings")
    if len(asked) > count:
        raise InputError(f"{len(asked)} {what}_names for {count} {what} tensors", hint="give at most one name each")
    if len(set(asked)) < len(asked):
        double = next(name for name in asked if list(asked).count(name) > 1)
        raise InputError(f"{what}_names has {double!r} twice", hint="every name must differ")


def describe(value: Any) -> str:
    """A value's structure in one line: tensors by dtype and shape."""
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {describe(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        inner = ", ".join(map(describe, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    text = repr(value)
    return text if len(text) < 60 else type(value).__name__
