"""A module that runs several times (a shared activation, tied layers) is drawn once per run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx_lab.view.box_graph import Box

Path = tuple[str, ...]


def separate_runs(boxes: Iterable[Box], classes: dict[Path, str]) -> None:
    """Give each further run of a module a path of its own: ``act``, ``act (run 2)`` ...

    Drawn as one box, the runs would make a loop of arrows where the model has none. Boxes are in execution order, and
    a module that runs is not interrupted by its neighbours: so a run ends where a box of another module begins.
    """
    runs: dict[Path, int] = {}
    last, last_plain = Path(), Path()  # the path of the box before, with and without its runs
    for box in boxes:
        if box.kind != "op":
            continue
        plain, path, same = box.path, Path(), True
        for depth, name in enumerate(plain):
            same = same and last_plain[depth : depth + 1] == (name,)
            if same:
                path = (*path, last[depth])
                continue
            runs[*path, name] = run = runs.get((*path, name), 0) + 1
            path = (*path, name if run == 1 else f"{name} (run {run})")
            if plain[: depth + 1] in classes:
                classes.setdefault(path, classes[plain[: depth + 1]])
        box.path = path
        last, last_plain = path, plain
