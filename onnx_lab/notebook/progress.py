"""A bar by stage for exports that take a while; quick ones stay quiet."""

from __future__ import annotations

import threading
import time
from typing import Any, Self

from onnx_lab.view.html import block, escape

STAGES = ("capture", "functionalize", "lower", "passes", "verify", "save")
QUIET_FOR = 1.0  # seconds before anything is shown


class Progress:
    """Shows the current stage by updating one display; plain HTML, so that no widget state remains."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._stage = ""
        self._start = time.perf_counter()
        self._handle: Any = None
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._timer = threading.Timer(QUIET_FOR, self._first)
        self._timer.daemon = True
        self._timer.start()
        return self

    def __exit__(self, *ignored: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            if self._handle is not None:
                # An empty update takes the bar away: what remains is the result.
                self._handle.update({"text/plain": "", "text/html": ""}, raw=True)

    def stage(self, name: str) -> None:
        """A stage begins."""
        self._stage = name
        if time.perf_counter() - self._start > QUIET_FOR:
            self._show()

    def _first(self) -> None:
        self._show()

    def _show(self) -> None:
        from IPython.display import display

        with self._lock:
            bundle = {"text/plain": f"{self._title}: {self._stage} ...", "text/html": self._html()}
            if self._handle is None:
                self._handle = display(bundle, raw=True, display_id=True)
            else:
                self._handle.update(bundle, raw=True)

    def _html(self) -> str:
        done = STAGES.index(self._stage) if self._stage in STAGES else 0
        steps = "".join(
            f'<span style="display:inline-block;width:84px;margin-right:3px;border-top:4px solid '
            f'{"#16a34a" if number < done else "#2563eb" if number == done else "#cbd5e1"};font-size:11px">'
            f"{escape(name)}</span>"
            for number, name in enumerate(STAGES)
        )
        return block(f'<div role="status">{escape(self._title)}</div>{steps}')
