"""Scripted modules are afterwards what they were before: mode, buffers and attributes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from onnx_lab.capture.modes import note_modes
from onnx_lab.program.report import Report


@contextmanager
def script_mode(script: Any, mode: str, report: Report | None = None) -> Iterator[None]:
    """Put every submodule that has a training flag in ``mode``: see ``capture.modes.training_mode``."""
    modules = list(script.named_modules()) if isinstance(script, torch.nn.Module) else []
    flagged = [(path, module) for path, module in modules if _has_flag(module)]
    flags = [module.training for _, module in flagged]
    try:
        if mode != "preserve":
            for _, module in flagged:
                module.training = mode == "train"
        if report is not None:
            named = [(path, str(module.original_name), bool(module.training)) for path, module in flagged]
            note_modes(report, mode, named, flags)
        yield
    finally:
        for (_, module), flag in zip(flagged, flags, strict=True):
            module.training = flag


def _has_flag(module: Any) -> bool:
    """Frozen modules have none."""
    return hasattr(module, "_c") and module._c.hasattr("training")


@contextmanager
def script_state_kept(script: Any) -> Iterator[None]:
    """The attributes of every submodule, of any type, hold afterwards what they held before."""
    kept = [
        (owner, name, value, _copied(value))
        for module in (script.modules() if isinstance(script, torch.nn.Module) else ())
        if (owner := _object_of(module)) is not None
        for name, value in _attributes(module, owner)
    ]
    try:
        yield
    finally:
        with torch.no_grad():
            for owner, name, value, copy in kept:
                if isinstance(value, torch.Tensor):
                    value.copy_(copy)
                    owner.setattr(name, value)
                else:
                    owner.setattr(name, copy)


def _object_of(module: Any) -> Any:
    """Torch's object behind a scripted module; None for any other module."""
    return getattr(module, "_c", None)


def _attributes(module: Any, owner: Any) -> Iterator[tuple[str, Any]]:
    """Attributes that the module's methods read or write, other than parameters and submodules."""
    parameters = {name for name, _ in module.named_parameters(recurse=False)}
    names: dict[str, None] = {}
    for method in owner._method_names():
        graph = owner._get_method(method).graph
        for kind in ("prim::GetAttr", "prim::SetAttr"):
            names |= dict.fromkeys(node.s("name") for node in graph.findAllNodes(kind, True))
    names |= dict.fromkeys(name for name, _ in module.named_buffers(recurse=False))
    for name in names:
        if name in parameters or not owner.hasattr(name):
            continue
        value = owner.getattr(name)
        if not isinstance(value, (torch._C.ScriptModule, torch._C.ScriptObject)) and not hasattr(value, "_c"):
            yield name, value


def _copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, (list, tuple)):
        return type(value)(map(_copied, value)) if not hasattr(value, "_fields") else value
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return value
