"""What a block changes in lists, dicts and objects of the outside: handed out of it like its results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from onnx_lab.capture.torchscript.templates import Template, build, leaves, shell, unify
from onnx_lab.capture.torchscript.values import Cell, DictCell, ListCell, ObjectCell, Value

if TYPE_CHECKING:
    from onnx_lab.capture.torchscript.interpreter import Interpreter


class Contents:
    """The cells that some path changes, and the template of what each holds afterwards."""

    def __init__(self, run: Interpreter) -> None:
        self._run = run
        self._templates: dict[int, Template] = {}
        self._cells: dict[int, Cell] = {}
        self._keys: dict[int, list[str]] = {}

    def add(self, index: int, cell: Cell, before: Any, contents: list[Any]) -> bool:
        """Take in what a cell holds on some paths; whether its template became more general.

        ``before`` is what it holds where nothing was changed.
        """
        keys = self._keys.setdefault(index, [])
        known = len(keys)
        if isinstance(cell, ObjectCell):
            keys += [name for content in contents for name in content if name not in keys]
        old = self._templates.get(index)
        if old is None or len(keys) > known:
            old = None
        values = [self.value(index, cell, content) for content in contents]
        template = shell(values[0]) if old is None else old
        for value in values:
            template = unify(template, value, self._run.tape)
        if len(keys) > known or old is None:
            template = unify(template, self.value(index, cell, before), self._run.tape)
        self._cells[index], self._templates[index] = cell, template
        return template != old

    def value(self, index: int, cell: Cell, content: Any) -> Value:
        """What a cell holds as a value; of an object the attributes that some path writes."""
        if isinstance(cell, ListCell):
            return ListCell(content)
        if isinstance(cell, DictCell):
            return DictCell(content)
        return DictCell({name: self._attribute(cell, content, name) for name in self._keys[index]})

    def _attribute(self, cell: ObjectCell, content: dict[str, Value], name: str) -> Value:
        return content[name] if name in content else self._run.objects.read_initial(cell, name)

    def __iter__(self) -> Iterator[tuple[int, Cell]]:
        return iter(self._cells.items())

    def templates(self) -> list[Template]:
        return [self._templates[index] for index in self._cells]

    def leaves(self, contents: dict[int, Any]) -> Iterator[Any]:
        """``templates.leaves`` for every cell, from what each holds."""
        for index, cell in self._cells.items():
            value = self.value(index, cell, contents[index])
            yield from leaves(self._templates[index], value, self._run.tape)

    def put(self, results: Iterator[Any]) -> None:
        """Let every cell hold what is built of these results."""
        for index, cell in self._cells.items():
            made = build(self._templates[index], results, self._run.tape)
            if isinstance(cell, ObjectCell):
                cell.content = cell.content | made.content
            else:
                cell.content = made.content
