"""Reading TorchScript graphs: where a node comes from, constants, the body of a function."""

from __future__ import annotations

import linecache
import re
from dataclasses import replace
from typing import Any

import torch

from onnx_lab.capture.sources import is_torch_file
from onnx_lab.program.source import UNKNOWN, Source

# '  File "model.py", line 12' and then the code, with '<--- HERE' below the line that is meant.
_RANGE = re.compile(r'File "(?P<file>.+?)", line (?P<line>\d+)')
_TRACED = re.compile(r"^(?P<file>\S.*?)\((?P<line>\d+)\): (?P<function>[\w.<>]+)$", re.MULTILINE)
_OVERLOAD = re.compile(r"^([\w:]+(?:\.\w+)?)\(")


class SourceOf:
    """The user's line of each node; what torch's own code does belongs to the line that called it."""

    def __init__(self) -> None:
        self._known: dict[str, Source] = {}

    def read(self, node: Any, caller: Source) -> Source:
        """The source of a node that is evaluated for a call made at ``caller``."""
        text = str(node.sourceRange())
        if not text.strip():
            return caller
        found = self._known.get(text)
        if found is None:
            found = source_in(text)
            self._known[text] = found
        if found.file is None or (is_torch_file(found.file) and caller.file is not None):
            return caller
        return replace(found, modules=caller.modules, function=found.function or caller.function)


def source_in(text: str) -> Source:
    """The place that a text of TorchScript names: a range of code, or an error message."""
    for match in _TRACED.finditer(text):
        if not is_torch_file(match["file"]):
            code = linecache.getline(match["file"], int(match["line"])).strip()
            return Source(match["file"], int(match["line"]), match["function"], code or None)
    found = _RANGE.search(text)
    if found is None or found["file"] == "<string>":  # code that torch itself makes
        return UNKNOWN
    file, line = found["file"], int(found["line"])
    return Source(file, line, None, linecache.getline(file, line).strip() or _marked(text))


def _marked(text: str) -> str | None:
    """The line that the marker points to."""
    lines = text.splitlines()
    at = next((index for index, line in enumerate(lines) if "<--- HERE" in line), 0)
    return (lines[at - 1].strip() or None) if at else None


def operator_key(node: Any) -> str:
    """``aten::add.Tensor``, or the bare kind for a node without a schema."""
    match = _OVERLOAD.match(node.schema())
    return match[1] if match else str(node.kind())


def body_of_call(node: Any) -> Any:
    """The graph of what a ``prim::CallFunction`` or ``prim::CallMethod`` node calls; its inputs are the arguments.

    Torch inlines what a graph calls into it: a graph with nothing but the call becomes the body.
    """
    graph: Any = torch._C.Graph()
    arguments = list(node.inputs())
    inputs = []
    if node.kind() == "prim::CallFunction":
        function = graph.createClone(arguments[0].node(), lambda value: value)
        graph.insertNode(function)
        inputs.append(function.output())
    for argument in arguments[len(inputs) :]:
        made = graph.addInput()
        made.setType(argument.type())
        inputs.append(made)
    by_value = {value.unique(): made for value, made in zip(arguments, inputs, strict=True)}
    call = graph.createClone(node, lambda value: by_value[value.unique()])
    graph.insertNode(call)
    # One value may be given twice: each argument is an input of its own.
    for index, made in enumerate(inputs):
        call.replaceInput(index, made)
    for output in call.outputs():
        graph.registerOutput(output)
    torch._C._jit_pass_inline(graph)
    return graph


def class_name(type_: Any) -> str:
    """The user's name of a scripted class: ``torch.nn.modules.linear.Linear``."""
    try:
        name = str(type_.qualified_name())
    except (AttributeError, RuntimeError):  # only classes have one
        name = str(type_)
    return ".".join(
        part for part in name.removeprefix("__torch__.").split(".") if not part.startswith("___torch_mangle")
    )
