"""The user's line and the module stack of an FX node."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import torch

from onnx_lab.program.source import Source

_TORCH_ROOT = str(Path(torch.__file__).parent) + os.sep
_FRAME = re.compile(r'File "(?P<file>.+?)", line (?P<line>\d+), in (?P<function>.+)')


def is_torch_file(path: str) -> bool:
    """Whether a frame belongs to torch itself or to generated code, rather than to the user or a prompt."""
    if path == "<string>":  # what python -c runs, else code that some library has generated
        return hasattr(sys.modules.get("__main__"), "__file__")
    return path.startswith((_TORCH_ROOT, "<eval_with_key>", "<frozen ")) or "torch/fx/" in path


class SourceReader:
    """Sources of FX nodes; equal stack traces and module stacks are read once."""

    def __init__(self) -> None:
        self._frames: dict[str, tuple[str, int, str, str] | None] = {}
        self._stacks: dict[Any, tuple[tuple[str, str], ...]] = {}
        self._sources: dict[Any, Source] = {}

    def read(self, node: torch.fx.Node) -> Source:
        trace, modules = node.stack_trace or "", self._modules(node.meta.get("nn_module_stack"))
        key = (trace, modules)
        found = self._sources.get(key)
        if found is None:
            frame = self._frame(trace)
            file, line, function, code = frame if frame is not None else (None, None, None, None)
            found = Source(file, line, function, code, modules)
            self._sources[key] = found
        return found

    def _frame(self, trace: str) -> tuple[str, int, str, str] | None:
        """The innermost frame outside torch, else the innermost of all that is no generated code."""
        if trace not in self._frames:
            lines = trace.splitlines()
            frames = []
            for index, line in enumerate(lines):
                match = _FRAME.search(line)
                if match is not None:
                    code = lines[index + 1].strip() if index + 1 < len(lines) else ""
                    frames.append((match["file"], int(match["line"]), match["function"], code))
            theirs = [frame for frame in frames if not is_torch_file(frame[0])]
            self._frames[trace] = theirs[-1] if theirs else None
        return self._frames[trace]

    def _modules(self, stack: Any) -> tuple[tuple[str, str], ...]:
        if not stack:
            return ()
        key = tuple(stack.items())
        found = self._stacks.get(key)
        if found is None:
            found = tuple(
                (_clean_path(path), _class_name(kind)) for path, kind in stack.values() if not path.startswith("_empty")
            )
            self._stacks[key] = found
        return found


def _clean_path(path: str) -> str:
    """``L['self'].encoder.layer[0]`` and the like as ``encoder.layer.0``."""
    path = re.sub(r"^L\[['\"]self['\"]\]\.?|^L__self___?", "", path)
    path = re.sub(r"\._modules\[['\"](.+?)['\"]\]", r".\1", path)
    return re.sub(r"\[['\"]?(\w+)['\"]?\]", r".\1", path).strip(".").partition("@")[0]


def _class_name(kind: Any) -> str:
    return kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"
