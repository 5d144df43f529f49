"""prim::If: one side where the condition is known, else both sides as the bodies of one call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onnx_lab.capture.torchscript import scalars
from onnx_lab.capture.torchscript.effects import Contents
from onnx_lab.capture.torchscript.raising import RaisedError
from onnx_lab.capture.torchscript.tape import Snapshot
from onnx_lab.capture.torchscript.templates import build, fakes, leaves, template_of, unify
from onnx_lab.capture.torchscript.values import Cell, Number, Value
from onnx_lab.errors import CaptureError
from onnx_lab.program.graph import Call, Region

if TYPE_CHECKING:
    from onnx_lab.capture.torchscript.interpreter import Frame, Interpreter


@dataclass(slots=True)
class _Side:
    """One evaluated side: its calls, results, and the cells that it changed."""

    calls: list[Call]
    outputs: list[Value]
    changed: dict[int, tuple[Cell, Any]]


def run(run: Interpreter, node: Any, frame: Frame) -> list[Value]:
    """The results of an If node.

    Raises:
        CaptureError: only the run decides, and the two sides give values that no graph value can hold.
        RaisedError: every side that can be taken raises an error.
    """
    blocks = list(node.blocks())
    truth = scalars.truth(run.tape, frame[node.input().unique()])
    if not isinstance(truth, Number):
        return run.block(blocks[0 if truth else 1], [], frame)
    raising = [_raises(block) for block in blocks]
    if all(raising):
        raise RaisedError("every branch raises an error")
    if any(raising):
        return _only(run, blocks[0 if raising[1] else 1], frame)
    return _both(run, blocks, truth, frame)


def _raises(block: Any) -> bool:
    return any(inner.kind() == "prim::RaiseException" for inner in block.nodes())


def _only(run: Interpreter, block: Any, frame: Frame) -> list[Value]:
    """The side that does not raise: whether the other would be taken is not tested in the exported model."""
    source = run.tape.source
    note = f"a check that raises an error is left out ({source.location or 'unknown line'})"
    if note not in run.tape.notes:
        run.tape.notes.append(note)
    return run.block(block, [], frame)


def _both(run: Interpreter, blocks: list[Any], truth: Number, frame: Frame) -> list[Value]:
    tape, source = run.tape, run.tape.source
    before = tape.snapshot()
    sides: list[_Side] = []
    for index, block in enumerate(blocks):
        try:
            with tape.block() as calls:
                outputs = run.block(block, [], frame)
            sides.append(_Side(calls, outputs, tape.changed(before)))
        except RaisedError:
            tape.restore(before)
            tape.source = source
            return _only(run, blocks[1 - index], frame)
        tape.restore(before)
        tape.source = source
    return _merge(run, truth, before, sides)


def _merge(run: Interpreter, truth: Number, before: Snapshot, sides: list[_Side]) -> list[Value]:
    tape = run.tape
    _refuse_changed_cells(run, sides)
    pairs = zip(sides[0].outputs, sides[1].outputs, strict=True)
    templates = [unify(template_of(one), other, tape) for one, other in pairs]
    contents = Contents(run)
    for index in dict.fromkeys([*sides[0].changed, *sides[1].changed]):
        cell = next(side.changed[index][0] for side in sides if index in side.changed)
        held = before.held(cell)
        contents.add(index, cell, held, [side.changed.get(index, (cell, held))[1] for side in sides])
    regions = []
    for side in sides:
        with tape.block(side.calls):
            pairs = zip(templates, side.outputs, strict=True)
            results = [leaf for one, value in pairs for leaf in leaves(one, value, tape)]
            results += contents.leaves(
                {index: side.changed.get(index, (cell, before.held(cell)))[1] for index, cell in contents}
            )
        regions.append(Region([], side.calls, results))
    made: Value = ()
    if any(region.calls or region.outputs for region in regions):
        known = [fake for one in (*templates, *contents.templates()) for fake in fakes(one, tape)]
        made = tape.emit("higher_order::cond", (truth.ref, []), tuple(known), regions=tuple(regions), name="cond")
    given = iter(made)
    values = [build(one, given, tape) for one in templates]
    contents.put(given)
    return values


def _refuse_changed_cells(run: Interpreter, sides: list[_Side]) -> None:
    """A list of the outside that one side changes and returns where the other returns another list."""
    for one, other in zip(sides[0].outputs, sides[1].outputs, strict=True):
        changed = [cell for side in sides for cell, _ in side.changed.values()]
        if one is not other and any(value is cell for value in (one, other) for cell in changed):
            raise CaptureError(
                "a branch that only the run decides changes a list and lets a variable name another one",
                source=run.tape.source,
                hint="change a copy: items = items.copy()",
            )
