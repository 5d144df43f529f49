"""Drawing: a graph folded by module, as SVG, PNG, DOT or text."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from pathlib import Path as FilePath
from typing import Any

import onnx_ir as ir

from onnx_lab.errors import InputError
from onnx_lab.extras import load_extra
from onnx_lab.program.graph import CapturedGraph
from onnx_lab.view.box_graph import BoxGraph, of_captured, of_model
from onnx_lab.view.dot import DotWriter, document
from onnx_lab.view.folding import VISIBLE, Path, auto_open, close_over, module_tree, open_to_depth
from onnx_lab.view.graphviz_engine import LayoutError, layout
from onnx_lab.view.html import picture_html
from onnx_lab.view.text import tree_text

_PNG_LIMIT = 4_000_000  # pixels; beyond it the PNG is left out of the bundle
_TITLES = {"fx": "captured graph (FX)", "onnx": "ONNX graph"}


class Drawing:
    """A picture of one graph, or of the captured and the ONNX graph side by side.

    Nothing is laid out before a picture is asked for; the last one is kept.

    Args:
        graphs: by kind (``fx``, ``onnx``).
        opened: dotted paths of modules to open; default: as many as stay readable.
        depth: open all modules down to this depth instead (1: only the outermost boxes).
        focus: draw only this module.
        limit: number of boxes up to which modules are opened by themselves.
    """

    def __init__(
        self,
        graphs: dict[str, BoxGraph],
        *,
        opened: Iterable[str] | None = None,
        depth: int | None = None,
        focus: str | None = None,
        limit: int = VISIBLE,
    ) -> None:
        self._graphs = {kind: _focused(graph, focus) for kind, graph in graphs.items()}
        self._trees = {kind: module_tree(graph) for kind, graph in self._graphs.items()}
        self.opened: set[str] = set()
        for tree in self._trees.values():
            if opened is not None:
                chosen = close_over({tuple(path.split(".")) for path in opened if path})
            elif depth is not None:
                chosen = open_to_depth(tree, depth)
            else:
                chosen = close_over({_path(focus)}) | auto_open(tree, limit)
            self.opened |= {".".join(path) for path in chosen & set(tree)}
        self._pictures: dict[tuple[str, frozenset[str]], bytes] = {}

    @classmethod
    def of(cls, source: Any, kind: str = "onnx", **options: Any) -> Drawing:
        """A drawing of a result, a captured graph or an ``onnx_ir.Model``.

        Raises:
            InputError: the source is none of these.
        """
        if isinstance(source, CapturedGraph):
            return cls({"fx": of_captured(source)}, **options)
        if isinstance(source, ir.Model):
            return cls({"onnx": of_model(source)}, **options)
        if not hasattr(source, "captured") or not hasattr(source, "model"):
            raise InputError(f"a {type(source).__name__} cannot be drawn", hint="give a result, a graph or an ir.Model")
        graphs = {}
        if kind in ("fx", "both"):
            graphs["fx"] = of_captured(source.captured)
        if kind in ("onnx", "both"):
            graphs["onnx"] = of_model(source.model)
        return cls(graphs, **options)

    # -- folding ------------------------------------------------------------------------------------

    def toggle(self, path: str) -> None:
        """Fold or unfold one module, by its dotted path."""
        if path in self.opened:
            self.opened -= {one for one in self.opened if one == path or one.startswith(path + ".")}
        else:
            self.opened |= {".".join(one) for one in close_over({_path(path)})}

    def _writers(self) -> list[tuple[str, DotWriter]]:
        opened: set[Path] = {_path(path) for path in self.opened} | {()}
        prefix = len(self._graphs) > 1
        return [
            (_TITLES[kind], DotWriter(graph, self._trees[kind], opened, f"{kind}/" if prefix else ""))
            for kind, graph in self._graphs.items()
        ]

    @property
    def visible(self) -> int:
        """Boxes in the picture."""
        return sum(writer.visible for _, writer in self._writers())

    # -- forms --------------------------------------------------------------------------------------

    def dot(self) -> str:
        """DOT text of the current view."""
        writers = self._writers()
        return document(writers, self._links(writers))

    def _links(self, writers: list[tuple[str, DotWriter]]) -> list[tuple[str, str]]:
        """With both graphs: which captured call an ONNX node came from, where both are visible."""
        if len(writers) < 2 or sum(writer.visible for _, writer in writers) > 2 * VISIBLE:
            return []
        fx, onnx = writers[0][1], writers[1][1]
        made: dict[tuple[str, str], None] = {}
        for box in self._graphs["onnx"].boxes.values():
            for call in box.origin.split(","):
                source, target = fx.rep.get(f"fx:{call}"), onnx.rep[box.key]
                if source is not None and not (source.startswith("mod:") and source == target):
                    made[(f"fx/{source}", f"onnx/{target}")] = None
        return list(made)

    def svg(self) -> str:
        """SVG text.

        Raises:
            LayoutError: no Graphviz, or it took too long.
        """
        return clean_svg(self._picture("svg").decode())

    def png(self) -> bytes:
        """PNG bytes.

        Raises:
            LayoutError: no Graphviz, or it took too long.
        """
        return self._picture("png")

    def _picture(self, form: str) -> bytes:
        key = (form, frozenset(self.opened))
        if key not in self._pictures:
            self._pictures = {have: data for have, data in self._pictures.items() if have[1] == key[1]}
            self._pictures[key] = layout(self.dot(), form)
        return self._pictures[key]

    def text(self, limit: int = 40) -> str:
        """The modules as an indented tree with the operators in each."""
        return "\n".join(tree_text(graph, self._trees[kind], limit) for kind, graph in self._graphs.items())

    def save(self, path: str) -> FilePath:
        """Write the picture; the suffix (.svg, .png, .dot, .txt) decides the form.

        Raises:
            InputError: another suffix.
            LayoutError: no Graphviz, or it took too long.
        """
        target = FilePath(path)
        forms = {".svg": lambda: self.svg().encode(), ".png": self.png, ".dot": lambda: self.dot().encode()}
        forms[".txt"] = lambda: self.text(10_000).encode()
        if target.suffix not in forms:
            raise InputError(f"{target.name} has no known suffix", hint=f"use one of {', '.join(forms)}")
        target.write_bytes(forms[target.suffix]())
        return target

    def explore(self) -> Any:
        """The drawing as a widget: pan, zoom, search, fold and unfold.

        Raises:
            MissingExtraError: ipywidgets or anywidget is not installed.
        """
        # By name, since drawing needs no notebook: only whoever explores has one.
        return load_extra("onnx_lab.notebook.widgets", "the graph widget").GraphWidget(self)

    def html(self) -> str:
        """The picture as self-contained HTML; the text form when there is no layout."""
        try:
            return picture_html(self.svg(), f"graph of {self.visible} boxes")
        except LayoutError as error:
            return picture_html(None, self.text(), str(error))

    def __repr__(self) -> str:
        sizes = ", ".join(f"{kind}: {len(graph.boxes)} nodes" for kind, graph in self._graphs.items())
        return f"Drawing({sizes}; {self.visible} boxes shown)"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        data: dict[str, Any] = {"text/plain": f"{self!r}\n{self.text()}", "text/html": self.html()}
        try:
            data["image/svg+xml"] = self.svg()
            width, height = svg_size(data["image/svg+xml"])
            if width * height * (96 / 72) ** 2 < _PNG_LIMIT:
                data["image/png"] = base64.b64encode(self.png()).decode()
        except LayoutError as error:
            data["text/plain"] += f"\n(no picture: {error})"
        return data


def _path(dotted: str | None) -> Path:
    return tuple(dotted.split(".")) if dotted else ()


def _focused(graph: BoxGraph, focus: str | None) -> BoxGraph:
    """Only the boxes of one module, with the values that enter and leave as inputs and outputs.

    Raises:
        InputError: no box lies in that module.
    """
    if not focus:
        return graph
    wanted = _path(focus)
    boxes = {key: box for key, box in graph.boxes.items() if box.path[: len(wanted)] == wanted}
    if not boxes:
        raise InputError(f"no node lies in module {focus!r}", hint="give a dotted path such as encoder.layer.0")
    edges = []
    for source, target, label in graph.edges:
        if target in boxes and source not in boxes:
            outside = graph.boxes[source]
            boxes = {source: outside} | boxes
            outside.kind, outside.path = ("input", ()) if outside.kind != "input" else (outside.kind, ())
        if target in boxes and source in boxes:
            edges.append((source, target, label))
    return BoxGraph(graph.name, boxes, edges, graph.classes)


def clean_svg(text: str) -> str:
    """Without XML prolog and comments, sized in pixels, never wider than its place."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    return text.strip()


def svg_size(text: str) -> tuple[float, float]:
    """Width and height in points."""
    match = re.search(r'width="([\d.]+)(?:pt|px)?"\s+height="([\d.]+)', text)
    return (float(match[1]), float(match[2])) if match else (0.0, 0.0)
