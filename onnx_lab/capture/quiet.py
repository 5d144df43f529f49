"""What torch logs while a model is captured: each failed try is told by our own error, in a few lines."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_SILENT = logging.CRITICAL + 1
# How the graph begins that torch prints when an export fails half-way.
_GRAPHS = ("def forward(self, ", "class GraphModule(torch.nn.Module)")


class _WithoutGraphs:
    """A stream that passes on everything but the graphs of failed exports."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._dropped = False

    def write(self, text: str) -> int:
        if text.lstrip().startswith(_GRAPHS):
            self._dropped = True
            return len(text)
        if self._dropped and text == "\n":
            return 1
        self._dropped = False
        return int(self._stream.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def quiet_torch() -> Iterator[None]:
    """While inside, torch's own loggers and its prints of failed graphs are silent; on any exit all is as before."""
    names = [name for name in logging.root.manager.loggerDict if name == "torch" or name.startswith("torch.")]
    handlers = {handler for name in names for handler in logging.getLogger(name).handlers}
    levels = [(handler, handler.level) for handler in handlers]
    propagating = logging.getLogger("torch").propagate
    try:
        for handler in handlers:
            handler.setLevel(_SILENT)
        logging.getLogger("torch").propagate = False
        stream: Any = _WithoutGraphs(sys.stderr)
        with contextlib.redirect_stderr(stream):
            yield
    finally:
        for handler, level in levels:
            handler.setLevel(level)
        logging.getLogger("torch").propagate = propagating
