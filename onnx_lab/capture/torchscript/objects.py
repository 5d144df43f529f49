"""Modules and objects of scripted classes: their attributes, read when needed, written into cells."""

from __future__ import annotations

from typing import Any

import torch

from onnx_lab.capture.torchscript import operators
from onnx_lab.capture.torchscript.graphs import class_name
from onnx_lab.capture.torchscript.tape import Tape, copied_content
from onnx_lab.capture.torchscript.values import DictCell, ListCell, ObjectCell, Value
from onnx_lab.errors import CaptureError


class Objects:
    """The objects of one program; a submodule that is reached twice is one object."""

    def __init__(self, tape: Tape, parameters: frozenset[str], root: str = "") -> None:
        self._tape = tape
        self._parameters = parameters
        self._root = root
        self._modules: dict[str, ObjectCell] = {}
        self._containers: dict[str, tuple[ListCell | DictCell, Any]] = {}
        # State that is an input of the exported model: by target.
        self.given: dict[str, Value] = {}

    def module(self, script: Any, path: str) -> ObjectCell:
        """The object of a torch._C.ScriptModule or ScriptObject at a path."""
        found = self._modules.get(path)
        if found is None:
            found = next((one for one in self._modules.values() if one.script == script), None)
        if found is None:
            made = ObjectCell(script, path, self._label(path), class_name(script._type()))
            found = self._tape.cell(made, lasting=True)
        self._modules[path] = found
        return found

    def _label(self, path: str) -> str:
        """A path as the user knows it: without the wrapper around the model."""
        if self._root and (path == self._root or path.startswith(self._root + ".")):
            return path[len(self._root) + 1 :]
        return path

    def create(self, type_: Any) -> ObjectCell:
        """A new object of a scripted class."""
        return self._tape.cell(ObjectCell(None, "", "", class_name(type_)))

    def read(self, cell: ObjectCell, name: str) -> Value:
        """The value that an attribute has now.

        Raises:
            CaptureError: it is of a type that graphs do not have.
        """
        return cell.content[name] if name in cell.content else self.read_initial(cell, name)

    def read_initial(self, cell: ObjectCell, name: str) -> Value:
        """The value that an attribute had before the call."""
        if name not in cell.initial:
            cell.initial[name] = self._load(cell, name)
        return cell.initial[name]

    def _load(self, cell: ObjectCell, name: str) -> Value:
        inner = f"{cell.path}.{name}" if cell.path else name
        target = f"{cell.label}.{name}" if cell.label else name
        if target in self.given:
            self._keep(target, self.given[target])
            return self.given[target]
        value = cell.script.getattr(name)
        if isinstance(value, torch.Tensor):
            kind = "parameter" if inner in self._parameters else "buffer"
            return self._tape.weight(value, target, kind)
        if isinstance(value, (torch._C.ScriptModule, torch._C.ScriptObject)):
            return self.module(value, inner)
        if hasattr(value, "_c"):
            return self.module(value._c, inner)
        if value is None or isinstance(value, (int, float, str, list, tuple, dict, torch.dtype, torch.device)):
            made = operators.from_python(self._tape, value, target, lasting=True)
            self._keep(target, made)
            return made
        raise CaptureError(
            f"the attribute {target} is a {type(value).__name__}",
            source=self._tape.source,
            hint="keep tensors, numbers, strings, and lists, tuples and dicts of them in attributes that forward reads",
        )

    def _keep(self, target: str, value: Value) -> None:
        """Remember what a list or dict holds before the call."""
        if isinstance(value, (ListCell, DictCell)):
            self._containers[target] = (value, copied_content(value.content))

    def written(self) -> dict[str, Value]:
        """What attributes hold that the program has written (or whose list or dict it has changed), by target."""
        found: dict[str, Value] = {}
        for path, cell in self._modules.items():
            if cell.path != path:
                continue
            prefix = f"{cell.label}." if cell.label else ""
            found |= {prefix + name: value for name, value in cell.content.items()}
        return found

    def containers(self) -> dict[str, tuple[ListCell | DictCell, Any]]:
        """Lists and dicts that attributes held before the call, by target, with what was in them."""
        return self._containers

    def before(self, target: str) -> Value:
        """The value that an attribute had before the call (what is in a list or dict may have changed since)."""
        if target in self._containers:
            held, content = self._containers[target]
            return ListCell(content) if isinstance(held, ListCell) else DictCell(content)
        cell, name = self._owner(target)
        return self.read_initial(cell, name)

    def at(self, target: str) -> Value:
        """The value that an attribute has now."""
        return self.read(*self._owner(target))

    def _owner(self, target: str) -> tuple[ObjectCell, str]:
        label, _, name = target.rpartition(".")
        return next(cell for cell in self._modules.values() if cell.label == label and cell.script is not None), name
