"""Lists, dicts, tuples and strings of TorchScript."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onnx_lab.capture.torchscript import operators, sequences
from onnx_lab.capture.torchscript.raising import RaisedError
from onnx_lab.capture.torchscript.scalars import compute, compute_any, is_scalar_operator, negation
from onnx_lab.capture.torchscript.tape import Tape, same_value
from onnx_lab.capture.torchscript.templates import spread
from onnx_lab.capture.torchscript.values import (
    DictCell,
    ListCell,
    Number,
    Sequence,
    TensorValue,
    Value,
    describe,
    is_known,
)
from onnx_lab.errors import CaptureError

Handler = Callable[[Tape, list[Value]], Value]


def find(kind: str, args: list[Value]) -> Handler | None:
    """What does an operator on a container, or on values that it puts into one; None when it is none."""
    if args and isinstance(args[0], ListCell):
        return _LISTS.get(kind)
    if args and isinstance(args[0], DictCell):
        return _DICTS.get(kind)
    if len(args) > 1 and isinstance(args[1], ListCell):
        return _LISTS.get(kind) if kind == "aten::mul" else None
    return None


def _refuse(tape: Tape, what: str, *values: Value) -> CaptureError:
    return CaptureError(
        what,
        source=tape.source,
        seen=", ".join(map(describe, values)),
        hint="make the length of the list known when exporting, or keep tensors in a tensor",
    )


# -- lists ------------------------------------------------------------------------------------------


def _append(tape: Tape, args: list[Value]) -> Value:
    cell, value = args
    if isinstance(cell.content, Sequence):
        cell.content = sequences.append(tape, cell.content, value)
    else:
        cell.content.append(value)
    return cell


def _get(tape: Tape, args: list[Value]) -> Value:
    cell, index = args
    if isinstance(cell.content, list) and not isinstance(index, Number):
        _check_index(tape, cell, index)
        return cell.content[index]
    return sequences.get(tape, spread(tape, cell), index)


def _check_index(tape: Tape, cell: ListCell, index: int) -> None:
    if not -len(cell.content) <= index < len(cell.content):  # type: ignore[arg-type]  # a list, as the caller saw
        raise _refuse(tape, f"index {index} is out of range", cell)


def _set(tape: Tape, args: list[Value]) -> Value:
    cell, index, value = args
    if isinstance(cell.content, list) and not isinstance(index, Number):
        _check_index(tape, cell, index)
        cell.content[index] = value
    else:
        cell.content = sequences.set_item(tape, spread(tape, cell), index, value)
    return cell


def _length(tape: Tape, args: list[Value]) -> Value:
    [cell] = args
    return len(cell.content) if isinstance(cell.content, list) else sequences.length(tape, cell.content)


def _pop(tape: Tape, args: list[Value]) -> Value:
    cell, index = args[0], args[1] if len(args) > 1 else -1
    if isinstance(cell.content, list) and not isinstance(index, Number):
        _check_index(tape, cell, index)
        return cell.content.pop(index)
    content = spread(tape, cell)
    made = sequences.get(tape, content, index)
    cell.content = sequences.without(tape, content, index)
    return made


def _delete(tape: Tape, args: list[Value]) -> Value:
    _pop(tape, args)
    return None


def _insert(tape: Tape, args: list[Value]) -> Value:
    cell, index, value = args
    if isinstance(cell.content, list) and not isinstance(index, Number):
        cell.content.insert(index, value)
    else:
        cell.content = sequences.insert(tape, spread(tape, cell), index, value)
    return None


def _plain(tape: Tape, cell: ListCell, what: str) -> list[Any]:
    items = _known(tape, cell, what)
    if not all(map(is_known, items)):
        raise _refuse(tape, f"{what} values that only the run tells", cell)
    return items


def _sort(tape: Tape, args: list[Value]) -> Value:
    _plain(tape, args[0], "sorting").sort(reverse=bool(args[1]) if len(args) > 1 else False)
    return None


def _sorted(tape: Tape, args: list[Value]) -> Value:
    return tape.list(sorted(_plain(tape, args[0], "sorting")))


def _remove(tape: Tape, args: list[Value]) -> Value:
    items = _plain(tape, args[0], "searching")
    del items[_position(tape, args)]
    return None


def _position(tape: Tape, args: list[Value]) -> Value:
    items = _plain(tape, args[0], "searching")
    if not is_known(args[1]):
        raise _refuse(tape, "searching for a value that only the run tells", args[1])
    found = next((index for index, item in enumerate(items) if same_value(item, args[1]) or item == args[1]), None)
    if found is None:
        raise RaisedError(f"ValueError: {args[1]!r} is not in the list")
    return found


def _count(tape: Tape, args: list[Value]) -> Value:
    if not is_known(args[1]):
        raise _refuse(tape, "counting a value that only the run tells", args[1])
    return _plain(tape, args[0], "counting").count(args[1])


def _known(tape: Tape, cell: ListCell, what: str) -> list[Value]:
    if isinstance(cell.content, Sequence):
        raise _refuse(tape, f"{what} a list whose length only the run tells", cell)
    return cell.content


def _extend(tape: Tape, args: list[Value]) -> Value:
    cell, other = args
    items = _known(tape, other, "extending by")
    for item in list(items):
        _append(tape, [cell, item])
    return None


def _clear(tape: Tape, args: list[Value]) -> Value:
    args[0].content = []
    return None


def _copy(tape: Tape, args: list[Value]) -> Value:
    content = args[0].content
    return tape.cell(ListCell(list(content) if isinstance(content, list) else content))


def _reverse(tape: Tape, args: list[Value]) -> Value:
    _known(tape, args[0], "reversing").reverse()
    return None


def _slice(tape: Tape, args: list[Value]) -> Value:
    items = _known(tape, args[0], "slicing")
    if not all(map(is_known, args[1:])):
        raise _refuse(tape, "a slice of a list whose ends only the run tells", args[0])
    return tape.list(items[slice(*args[1:])])


def _concat(tape: Tape, args: list[Value]) -> Value:
    one, other = args[:2]
    return tape.list([*_known(tape, one, "adding"), *_known(tape, other, "adding")])


def _repeat(tape: Tape, args: list[Value]) -> Value:
    cell, count = args if isinstance(args[0], ListCell) else args[::-1]
    items = _known(tape, cell, "repeating")
    if isinstance(count, Number):
        raise _refuse(tape, "a list repeated a number of times that only the run tells", cell)
    return tape.list(items * count)


def _equal(tape: Tape, args: list[Value]) -> Value:
    one, other = args
    if not isinstance(other, ListCell) or (is_known(one) and is_known(other)):
        return operators.to_python(one) == operators.to_python(other)
    mine, theirs = _known(tape, one, "comparing"), _known(tape, other, "comparing")
    if len(mine) != len(theirs):
        return False
    result: Value = True
    for a, b in zip(mine, theirs, strict=True):
        same = True if same_value(a, b) else _equal_numbers(tape, a, b)
        result = _both(tape, result, same)
    return result


def _equal_numbers(tape: Tape, a: Value, b: Value) -> Value:
    """Whether two numbers are equal."""
    return compute(tape, "aten::eq", [a, b]) if is_scalar_operator([a, b]) else a == b


def _both(tape: Tape, one: Value, other: Value) -> Value:
    if one is True or other is True:
        return other if one is True else one
    if one is False or other is False:
        return False
    return compute(tape, "aten::__and__", [one, other])


def _differ(tape: Tape, args: list[Value]) -> Value:
    return negation(tape, _equal(tape, args))


def _contains(tape: Tape, args: list[Value]) -> Value:
    cell, value = args
    items = _known(tape, cell, "searching")
    if any(same_value(item, value) for item in items):
        return True
    found: Value = False
    for item in items:
        same = _equal_numbers(tape, item, value)
        found = same if found is False else _either(tape, found, same)
    return found


def _either(tape: Tape, one: Value, other: Value) -> Value:
    if other is False or one is True:
        return one
    return True if other is True else compute(tape, "aten::__or__", [one, other])


def _stack(tape: Tape, args: list[Value]) -> Value:
    return _joined(tape, "stack", args)


def _cat(tape: Tape, args: list[Value]) -> Value:
    return _joined(tape, "cat", args)


def _joined(tape: Tape, name: str, args: list[Value]) -> Value:
    cell, dim = args[0], args[1] if len(args) > 1 else 0
    if isinstance(cell.content, Sequence) and not cell.content.numbers:
        return sequences.join(tape, name, cell.content, dim)
    return operators.run(tape, f"aten::{name}", args)


def _sum(tape: Tape, args: list[Value]) -> Value:
    total: Value = 0
    for item in _known(tape, args[0], "the sum of"):
        total = compute_any(tape, "aten::add", [total, item])
    return total


def _extreme(name: str) -> Handler:
    def run(tape: Tape, args: list[Value]) -> Value:
        items = _known(tape, args[0], f"the {name} of")
        result = items[0]
        for item in items[1:]:
            result = compute_any(tape, f"prim::{name}", [result, item])
        return result

    return run


_LISTS: dict[str, Handler] = {
    "aten::append": _append,
    "aten::__getitem__": _get,
    "aten::_set_item": _set,
    "aten::len": _length,
    "aten::pop": _pop,
    "aten::Delete": _delete,
    "aten::insert": _insert,
    "aten::extend": _extend,
    "aten::clear": _clear,
    "aten::copy": _copy,
    "aten::list": _copy,
    "aten::reverse": _reverse,
    "aten::sort": _sort,
    "aten::sorted": _sorted,
    "aten::remove": _remove,
    "aten::index": _position,
    "aten::count": _count,
    "aten::slice": _slice,
    "aten::add": _concat,
    "aten::add_": lambda tape, args: (_extend(tape, args), args[0])[1],
    "aten::mul": _repeat,
    "aten::eq": _equal,
    "aten::ne": _differ,
    "aten::__contains__": _contains,
    "aten::stack": _stack,
    "aten::cat": _cat,
    "aten::concat": _cat,
    "aten::sum": _sum,
    "prim::min": _extreme("min"),
    "prim::max": _extreme("max"),
}


# -- dicts ------------------------------------------------------------------------------------------


def _key(tape: Tape, key: Value) -> Any:
    if not is_known(key):
        raise _refuse(tape, "a dict with a key that only the run tells", key)
    return key


def _dict_get(tape: Tape, args: list[Value]) -> Value:
    cell, key = args
    if _key(tape, key) not in cell.content:
        raise _refuse(tape, f"the dict has no key {key!r}", cell)
    return cell.content[key]


def _dict_set(tape: Tape, args: list[Value]) -> Value:
    cell, key, value = args
    cell.content[_key(tape, key)] = value
    return None


def _dict_pop(tape: Tape, args: list[Value]) -> Value:
    made = _dict_get(tape, args[:2]) if len(args) < 3 or args[1] in args[0].content else args[2]
    args[0].content.pop(args[1], None)
    return made


def _dict_delete(tape: Tape, args: list[Value]) -> Value:
    _dict_get(tape, args)
    del args[0].content[args[1]]
    return None


def _dict_update(tape: Tape, args: list[Value]) -> Value:
    args[0].content.update(args[1].content)
    return None


def _dict_default(tape: Tape, args: list[Value]) -> Value:
    return args[0].content.setdefault(_key(tape, args[1]), args[2])


_DICTS: dict[str, Handler] = {
    "aten::__getitem__": _dict_get,
    "aten::_set_item": _dict_set,
    "aten::len": lambda tape, args: len(args[0].content),
    "aten::keys": lambda tape, args: tape.list(list(args[0].content)),
    "aten::values": lambda tape, args: tape.list(list(args[0].content.values())),
    "aten::items": lambda tape, args: tape.list(list(args[0].content.items())),
    "aten::get": lambda tape, args: args[0].content.get(_key(tape, args[1]), args[2] if len(args) > 2 else None),
    "aten::__contains__": lambda tape, args: _key(tape, args[1]) in args[0].content,
    "aten::pop": _dict_pop,
    "aten::Delete": _dict_delete,
    "aten::update": _dict_update,
    "aten::clear": lambda tape, args: args[0].content.clear(),
    "aten::copy": lambda tape, args: tape.cell(DictCell(dict(args[0].content))),
    "aten::setdefault": _dict_default,
    "aten::popitem": lambda tape, args: args[0].content.popitem(),
    "aten::list": lambda tape, args: tape.list(list(args[0].content)),
}


# -- tensors made of lists --------------------------------------------------------------------------


def tensor_of(tape: Tape, data: Value, dtype: torch.dtype | None) -> TensorValue:
    """``torch.tensor(data)``: of numbers, or of nested lists of numbers.

    Raises:
        CaptureError: something else is in it.
    """
    if is_known(data):
        return operators.constant(tape, torch.tensor(operators.to_python(data), dtype=dtype), "constant")
    if isinstance(data, TensorValue):
        wanted = data.fake.dtype if dtype is None else dtype
        made = operators.run(tape, "aten::to.dtype", [data, wanted, False, True])
        assert isinstance(made, TensorValue)
        return made
    if isinstance(data, Number):
        return scalar_tensor(tape, data, dtype)
    if isinstance(data, (ListCell, tuple)):
        items = data if isinstance(data, tuple) else _known(tape, data, "a tensor of")
        rows = [tensor_of(tape, item, dtype) for item in items]
        made = operators.run(tape, "aten::stack", [tape.list(list(rows)), 0])
        assert isinstance(made, TensorValue)
        return made
    raise _refuse(tape, "a tensor of something else than numbers", data)


_DTYPE = {"int": torch.int64, "bool": torch.bool}


def scalar_tensor(tape: Tape, value: Value, dtype: torch.dtype | None = None) -> TensorValue:
    """A 0-D tensor of a number."""
    if not isinstance(value, Number):
        return operators.constant(tape, torch.tensor(value, dtype=dtype), "constant")
    wanted = dtype or _DTYPE.get(value.kind) or torch.get_default_dtype()
    made = operators.run(tape, "aten::scalar_tensor", [value, wanted])
    assert isinstance(made, TensorValue)
    made.number = value
    return made
