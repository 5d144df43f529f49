"""DOT text of a folded graph: clusters for open modules, stubs for long edges, everything escaped."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from onnx_lab.view.box_graph import Box, BoxGraph
from onnx_lab.view.folding import STUB_ABOVE, Module, Path, representative

LABELS_BELOW = 25  # edges carry shapes only in small drawings
# (fill, border) by what a box is; contrast of the dark text on each is above 7.
_COLORS = {
    "input": ("#dbeafe", "#3b82f6"),
    "output": ("#dcfce7", "#16a34a"),
    "module": ("#fef3c7", "#d97706"),
    "linear": ("#ede9fe", "#7c3aed"),
    "norm": ("#cffafe", "#0891b2"),
    "activation": ("#ffe4e6", "#e11d48"),
    "shape": ("#f1f5f9", "#94a3b8"),
    "op": ("#ffffff", "#64748b"),
}
_FAMILIES = {
    "linear": "linear addmm matmul mm bmm conv einsum gemm attention lstm gru rnn scaled_dot",
    "norm": "norm",
    "activation": "relu gelu silu softmax sigmoid tanh swish mish elu",
    "shape": (
        "view reshape permute transpose slice select expand unsqueeze squeeze cat split chunk flatten gather "
        "shape concat identity size stack contiguous clone copy to pad roll"
    ),
}


def family(title: str) -> str:
    """Colour family of an operator by its name."""
    name = title.lower()
    for kind, words in _FAMILIES.items():
        if any(word in name for word in words.split() if len(word) > 2) or name in words.split():
            return kind
    return "op"


def quoted(text: str) -> str:
    """A DOT string: quotes, backslashes and control characters escaped."""
    clean = "".join(c if c.isprintable() or c == "\n" else " " for c in text)
    return '"' + clean.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


class DotWriter:
    """Writes one folded view of a graph."""

    def __init__(self, graph: BoxGraph, tree: dict[Path, Module], opened: set[Path], prefix: str = "") -> None:
        self._graph, self._tree, self._opened, self._prefix = graph, tree, opened, prefix
        self.rep: dict[str, str] = {}
        self._members: dict[Path, list[str]] = defaultdict(list)  # open module → visible nodes directly in it
        self._nodes: dict[str, str] = {}
        self._collect()
        self.edges = self._visible_edges()

    @property
    def visible(self) -> int:
        """Boxes in this view."""
        return len(self._nodes)

    def _collect(self) -> None:
        for box in self._graph.boxes.values():
            closed = representative(box.path, self._opened)
            if closed is None:
                self.rep[box.key] = box.key
                self._nodes[box.key] = self._box(box)
                self._members[box.path].append(box.key)
            else:
                key = "mod:" + ".".join(closed)
                self.rep[box.key] = key
                if key not in self._nodes:
                    self._nodes[key] = self._folded(key, closed, box)
                    self._members[closed[:-1]].append(key)

    def _visible_edges(self) -> dict[tuple[str, str], str]:
        found: dict[tuple[str, str], str] = {}
        for source, target, label in self._graph.edges:
            a, b = self.rep[source], self.rep[target]
            if a != b:
                found.setdefault((a, b), label)
        return found

    # -- text ---------------------------------------------------------------------------------------

    def _id(self, key: str) -> str:
        return quoted(self._prefix + key)

    def _box(self, box: Box) -> str:
        fill, border = _COLORS[box.kind if box.kind != "op" else family(box.title)]
        label = f"{box.title}\n{box.detail}" if box.detail else box.title
        shape = ' shape=box style="rounded,filled"' if box.kind == "op" else ' shape=box style="filled"'
        return self._node(box.key, label, "\n".join(box.tip), f'{shape} fillcolor="{fill}" color="{border}"')

    def _folded(self, key: str, path: Path, first: Box) -> str:
        total = self._tree[path].total
        size = f"{total} nodes" if total > 1 else first.title
        kind = self._graph.classes.get(path, "")
        label = f"{path[-1]}{': ' + kind if kind else ''}\n{size}"
        fill, border = _COLORS["module"]
        tip = f"{'.'.join(path)} {kind}\n{size}, folded"
        style = f' shape=box style="rounded,filled,bold" fillcolor="{fill}" color="{border}"'
        return self._node(key, label, tip, style)

    def _node(self, key: str, label: str, tip: str, style: str) -> str:
        return f"{self._id(key)} [id={self._id(key)} label={quoted(label)} tooltip={quoted(tip)}{style}];"

    def body(self) -> Iterator[str]:
        """Clusters, boxes, stubs and edges."""
        yield from self._cluster(())
        consumers = Counter(source for source, _ in self.edges)
        labels = len(self._nodes) <= LABELS_BELOW
        stubs: set[str] = set()
        first: set[str] = set()
        for (source, target), label in self.edges.items():
            if consumers[source] > STUB_ABOVE and source in first:
                stub = f"stub:{source}>{target}"
                if stub not in stubs:
                    stubs.add(stub)
                    name = source.partition(":")[2].rpartition(".")[2]
                    look = 'shape=box style="dashed,rounded" fontsize=9 color="#94a3b8" fontcolor="#475569" height=0.2'
                    yield f"{self._id(stub)} [label={quoted('↪ ' + name)} tooltip={quoted(source)} {look}];"
                yield f'{self._id(stub)} -> {self._id(target)} [style=dashed color="#94a3b8" arrowsize=0.5];'
                continue
            first.add(source)
            text = f" label={quoted(' ' + label)}" if labels else ""
            yield f"{self._id(source)} -> {self._id(target)} [edgetooltip={quoted(label)}{text}];"

    def _cluster(self, path: Path) -> Iterator[str]:
        yield from (self._nodes[key] for key in self._members.get(path, ()))
        for child in self._tree[path].children:
            if child not in self._opened:
                continue
            kind = self._graph.classes.get(child, "")
            title = f"{child[-1]}{': ' + kind if kind else ''}"
            name = ".".join(child)
            yield f"subgraph {quoted('cluster_' + self._prefix + name)} {{"
            yield f"id={self._id('mod:' + name)} label={quoted(title)} tooltip={quoted(name)};"
            yield 'style="rounded,filled" color="#cbd5e1" fillcolor="#f8fafc" fontcolor="#334155" labeljust=l;'
            yield from self._cluster(child)
            yield "}"


def document(writers: list[tuple[str, DotWriter]], links: list[tuple[str, str]] = []) -> str:  # noqa: B006  read only
    """One DOT document; several graphs stand side by side as titled clusters, joined by dotted links."""
    lines = [
        "digraph model {",
        'graph [rankdir=TB nodesep=0.22 ranksep=0.32 fontname="Helvetica" fontsize=11 bgcolor="white" compound=true];',
        'node [fontname="Helvetica" fontsize=10 margin="0.12,0.05" height=0.3 fontcolor="#0f172a" penwidth=1.1];',
        'edge [fontname="Helvetica" fontsize=8 color="#64748b" fontcolor="#475569" arrowsize=0.6];',
    ]
    for title, writer in writers:
        if len(writers) > 1:
            lines.append(f"subgraph {quoted('cluster:' + title)} {{ label={quoted(title)} fontsize=14 color=white;")
        lines.extend(writer.body())
        if len(writers) > 1:
            lines.append("}")
    for a, b in links:
        lines.append(f'{quoted(a)} -> {quoted(b)} [style=dotted color="#a78bfa" constraint=false arrowhead=none];')
    return "\n".join([*lines, "}"])
