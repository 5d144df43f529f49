"""Which modules are open: decided on the tree of modules, never on the nodes."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from onnx_lab.view.box_graph import BoxGraph

Path = tuple[str, ...]
VISIBLE = 48  # boxes that a reader takes in at one glance
STUB_ABOVE = 4  # a source with more visible consumers is drawn once and named elsewhere


@dataclass(slots=True)
class Module:
    """One module with the boxes directly in it."""

    path: Path
    own: int = 0
    total: int = 0
    children: list[Path] = field(default_factory=list)


def module_tree(graph: BoxGraph) -> dict[Path, Module]:
    """Modules by path, with counts; the root is ``()``."""
    tree: dict[Path, Module] = {(): Module(())}
    for box in graph.boxes.values():
        if box.kind != "op":
            continue
        for length in range(1, len(box.path) + 1):
            path = box.path[:length]
            if path not in tree:
                tree[path] = Module(path)
                tree[path[:-1]].children.append(path)
        tree[box.path].own += 1
        for length in range(len(box.path) + 1):
            tree[box.path[:length]].total += 1
    return tree


def visible_inside(module: Module) -> int:
    """Boxes that appear when this module alone is opened."""
    return module.own + len(module.children)


def auto_open(tree: dict[Path, Module], limit: int = VISIBLE) -> set[Path]:
    """Open modules, larger and outer ones first, while the drawing stays readable."""
    opened: set[Path] = {()}
    visible = visible_inside(tree[()])
    waiting = [(len(path), -tree[path].total, path) for path in tree[()].children]
    heapq.heapify(waiting)
    while waiting:
        depth, _, path = heapq.heappop(waiting)
        grown = visible - 1 + visible_inside(tree[path])
        if grown > limit:
            continue
        opened.add(path)
        visible = grown
        for child in tree[path].children:
            heapq.heappush(waiting, (depth + 1, -tree[child].total, child))
    return opened


def open_to_depth(tree: dict[Path, Module], depth: int) -> set[Path]:
    return {path for path in tree if len(path) < depth} | {()}


def close_over(paths: set[Path]) -> set[Path]:
    """Opening a module opens everything around it."""
    return {path[:length] for path in paths for length in range(len(path) + 1)} | {()}


def representative(path: Path, opened: set[Path]) -> Path | None:
    """The outermost closed module around a box; None when all are open."""
    for length in range(1, len(path) + 1):
        if path[:length] not in opened:
            return path[:length]
    return None
