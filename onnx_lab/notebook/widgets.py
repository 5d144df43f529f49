"""GraphWidget: a drawing to explore: pan, zoom, search, fold and unfold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anywidget
import traitlets

from onnx_lab.view.drawing import Drawing
from onnx_lab.view.graphviz_engine import LayoutError

_STATIC = Path(__file__).parent / "static"


class GraphWidget(anywidget.AnyWidget):
    """Shows a Drawing; a click on a module folds or unfolds it.

    The static picture is part of the display, so that saved notebooks show it without a kernel.
    """

    _esm = (_STATIC / "graph.js").read_text()
    _css = (_STATIC / "graph.css").read_text()
    svg = traitlets.Unicode().tag(sync=True)
    fallback = traitlets.Unicode().tag(sync=True)
    selected = traitlets.Unicode().tag(sync=True)

    def __init__(self, drawing: Drawing, **options: Any) -> None:
        self.drawing = drawing
        super().__init__(**options)
        self.on_msg(self._receive)
        self.redraw()

    def redraw(self) -> None:
        """Lay the current view out again; without Graphviz the text form is shown."""
        try:
            self.svg = self.drawing.svg()
        except LayoutError as error:
            self.svg, self.fallback = "", f"{self.drawing.text()}\n\n(no picture: {error})"

    def _receive(self, _: Any, content: Any, buffers: Any) -> None:
        if not isinstance(content, dict) or content.get("type") != "choose":
            return
        name = str(content.get("id", "")).rpartition("/")[2]
        if name.startswith("mod:"):
            self.drawing.toggle(name.removeprefix("mod:"))
            self.redraw()

    def __repr__(self) -> str:
        return f"GraphWidget({self.drawing!r})"

    def _repr_mimebundle_(self, **options: Any) -> Any:
        made: Any = super()._repr_mimebundle_(**options) or {}
        data, metadata = made if isinstance(made, tuple) else (made, {})
        return {**self.drawing._repr_mimebundle_(), **data, "text/plain": repr(self)}, metadata
