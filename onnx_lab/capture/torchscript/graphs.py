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
_TRACED = re.compile(r"^(?P<file>.+?)\((?P<line>\d+)\): (?P<function>\S+)$", re.MULTILINE)
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


def body_of_function(node: Any) -> Any:
    """The graph of the function that a ``prim::CallFunction`` node calls; its inputs are the arguments.

    Torch inlines functions into the graph that calls them: a graph with nothing but the call becomes the body.
    """
    function, *arguments = node.inputs()
    graph: Any = torch._C.Graph()
    values: dict[int, Any] = {}
    inputs = []
    for argument in arguments:
        made = graph.addInput()
        made.setType(argument.type())
        inputs.append(made)

    def copied(source: Any, values: dict[int, Any]) -> Any:
        clone = graph.createClone(source, lambda value: values[value.unique()])
        graph.insertNode(clone)
        return clone

    values[function.unique()] = copied(function.node(), values).output()
    # One value may be given twice: the clone must read the inputs one by one.
    call = copied(node, values | {value.unique(): made for value, made in zip(arguments, inputs, strict=True)})
    for index, made in enumerate(inputs):
        call.replaceInput(index + 1, made)
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
