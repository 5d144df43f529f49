"""Completion after a magic: its options, their values, and names in scope, the likely ones first."""

from __future__ import annotations

import sys
from typing import Any

from onnx_lab.notebook.arguments import split_line
from onnx_lab.opsets import NEWEST, OLDEST

NAMES = ("onnx_export", "onnx_graph", "onnx_ops", "onnx_coverage", "onnx_diff")
_TAKES_MODEL = ("onnx_export", "onnx_coverage")


def complete(ip: Any, event: Any) -> list[str]:
    """IPython's ``complete_command`` hook."""
    words = split_line(event.text_until_cursor)
    name = words[0].lstrip("%") if words else ""
    magic = ip.magics_manager.magics["line"].get(name)
    if magic is None:
        return []
    open_word = "" if event.text_until_cursor[-1:].isspace() else words[-1]
    before = words[1:] if not open_word else words[1:-1]
    parser = magic.__func__.parser if hasattr(magic, "__func__") else magic.parser
    if open_word.startswith("-"):
        return sorted(
            option for action in parser._actions for option in action.option_strings if option.startswith(open_word)
        )
    if before and before[-1].startswith("-"):
        values = _values(parser, before[-1])
        if values is not None:
            return [value for value in values if value.startswith(open_word)]
    return [found for found in _names(ip.user_ns, name, len(_positional(before))) if found.startswith(open_word)]


def _positional(words: list[str]) -> list[str]:
    return [word for word in words if not word.startswith("-")]


def _values(parser: Any, option: str) -> list[str] | None:
    """The values that an option takes; None when they are free."""
    for action in parser._actions:
        if option in action.option_strings:
            if action.choices:
                return list(action.choices)
            if option == "--opset":
                return [str(number) for number in range(OLDEST, NEWEST + 1)]
    return None


def _names(scope: dict[str, Any], magic: str, position: int) -> list[str]:
    """Names of the notebook, those of the wanted kind first."""
    visible = {name: value for name, value in scope.items() if not name.startswith("_")}
    torch = sys.modules.get("torch")
    if magic in _TAKES_MODEL and torch is not None:
        kind = torch.nn.Module if position == 0 else torch.Tensor
        wanted = [name for name, value in visible.items() if isinstance(value, kind)]
    else:
        wanted = [name for name, value in visible.items() if type(value).__name__ == "ExportResult"]
    return wanted + [name for name in visible if name not in wanted and not callable(visible[name])]
