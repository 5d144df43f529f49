"""A semicolon after one of our magics silences the display and keeps the value.

IPython's own mark for this makes the magic return None, so that ``r = %onnx_export model x;`` would lose the result.
"""

from __future__ import annotations

import re
from typing import Any

# What IPython makes of a cell that ends in ``%onnx_export model x;``.
_SILENCED = re.compile(r"run_line_magic\(\s*(['\"])onnx_\w+\1\s*,\s*(['\"]).*;\s*\2\s*\)\s*$")


def install(hook: Any) -> None:
    """Let this display hook take a semicolon inside the magic's line for one at the end of the cell."""
    ours = hook.quiet  # the bound method of the class

    def quiet() -> bool:
        return bool(ours()) or _last_magic_is_silenced(hook.shell)

    hook.quiet = quiet


def remove(hook: Any) -> None:
    """Back to the class's own method."""
    vars(hook).pop("quiet", None)


def _last_magic_is_silenced(shell: Any) -> bool:
    parsed = shell.history_manager.input_hist_parsed
    return bool(parsed) and _SILENCED.search(parsed[-1]) is not None
