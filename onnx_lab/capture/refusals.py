"""Branches in which the model itself refuses other sizes: ``if t > 77: raise ...`` and ``assert t <= 77``."""

from __future__ import annotations

import ast
import functools
import linecache


def refuses_otherwise(file: str | None, line: int | None) -> bool:
    """Whether the decision on this line only chooses between going on and raising an error.

    Such a branch freezes nothing: for the sizes that it excludes the model gives no result either.
    """
    if file is None or line is None:
        return False
    return line in _refusing_lines(file)


@functools.lru_cache(maxsize=64)
def _refusing_lines(file: str) -> frozenset[int]:
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return frozenset()
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert) or (isinstance(node, ast.If) and (_raises(node.body) or _raises(node.orelse))):
            lines.update(_span(node.test))
    return frozenset(lines)


def _raises(body: list[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], ast.Raise)


def _span(node: ast.expr) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)
