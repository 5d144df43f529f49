"""prim::Loop: turn by turn where the number of turns is known and small, else one call with a body.

What the body carries from turn to turn is found by running it: first on the values before the loop, then on ever
more general ones, until what comes out is what went in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onnx_lab.capture.torchscript import scalars
from onnx_lab.capture.torchscript.effects import Contents
from onnx_lab.capture.torchscript.raising import RaisedError
from onnx_lab.capture.torchscript.tape import Snapshot
from onnx_lab.capture.torchscript.templates import Template, build, fakes, leaves, template_of, unify
from onnx_lab.capture.torchscript.values import Number, Value
from onnx_lab.errors import CaptureError
from onnx_lab.program.graph import Ref, Region
from onnx_lab.program.spec import ScalarSpec, Spec

if TYPE_CHECKING:
    from onnx_lab.capture.torchscript.interpreter import Frame, Interpreter

# Loops of up to so many turns are written out.
MOST_TURNS = 64
_ENDLESS = 2**63 - 1
_MOST_ROUNDS = 12


def run(run: Interpreter, node: Any, frame: Frame) -> list[Value]:
    """The results of a Loop node.

    Raises:
        CaptureError: a variable changes from turn to turn in a way that no graph value can hold.
    """
    trips, going, *start = (frame[value.unique()] for value in node.inputs())
    [block] = node.blocks()
    going = scalars.truth(run.tape, going)
    if going is False or trips == 0:
        return start
    if isinstance(trips, int) and not isinstance(going, Number):
        written_out = _written_out(run, block, trips, start, frame)
        if written_out is not None:
            return written_out
    return _Loop(run, block, frame, start).emit(trips, going)


def _written_out(run: Interpreter, block: Any, trips: int, start: list[Value], frame: Frame) -> list[Value] | None:
    """The results after all turns; None when there are too many, or when only the run tells how many."""
    if MOST_TURNS < trips < _ENDLESS:
        return None
    tape, source = run.tape, run.tape.source
    before = tape.snapshot()
    state = start
    with tape.attempt() as attempt:
        for turn in range(min(trips, MOST_TURNS + 1)):
            going, *state = run.block(block, [turn, *state], frame)
            tape.source = source
            going = scalars.truth(tape, going)
            if isinstance(going, Number) and turn + 1 < trips:
                break
            if not isinstance(going, Number) and not going:
                attempt.accept()
                return state
        else:
            if trips <= MOST_TURNS:
                attempt.accept()
                return state
    tape.restore(before)
    return None


class _Loop:
    """One loop that stays a loop."""

    def __init__(self, run: Interpreter, block: Any, frame: Frame, start: list[Value]) -> None:
        self.run, self.tape = run, run.tape
        self.block, self.frame, self.start = block, frame, start
        self.templates: list[Template] = [template_of(value) for value in start]
        self.contents = Contents(run)
        self.source = run.tape.source

    def emit(self, trips: Value, going: Value) -> list[Value]:
        tape = self.tape
        before = tape.snapshot()
        try:
            region = self._body(before)
        except RaisedError as raised:
            raise CaptureError(
                f"a loop whose number of turns only the run tells raises an error in every turn: {raised}",
                source=tape.source,
                hint="leave the loop out, or give inputs for which it does not raise",
            ) from raised
        tape.restore(before)
        tape.source = self.source
        pairs = zip(self.templates, self.start, strict=True)
        init = [leaf for one, value in pairs for leaf in leaves(one, value, tape)]
        init += self.contents.leaves({index: before.held(cell) for index, cell in self.contents})
        known = [fake for one in self._all_templates() for fake in fakes(one, tape)]
        count = None if trips == _ENDLESS else scalars.argument(trips)
        args = (count, scalars.argument(going), init)
        given = iter(tape.emit("script::loop", args, tuple(known), regions=(region,), name="loop"))
        values = [build(one, given, tape) for one in self.templates]
        self.contents.put(given)
        return values

    def _all_templates(self) -> list[Template]:
        return [*self.templates, *self.contents.templates()]

    def _body(self, before: Snapshot) -> Region:
        """The body on values that are as general as they need to be."""
        for _ in range(_MOST_ROUNDS):
            self.tape.restore(before)
            self.tape.source = self.source
            written = self.tape.writes
            with self.tape.block() as calls:
                params, turn, given = self._parameters()
                states = [build(one, given, self.tape) for one in self.templates]
                self.contents.put(given)
                going, *after = self.run.block(self.block, [turn, *states], self.frame)
                going = scalars.truth(self.tape, going)
                self.tape.source = self.source
                # What a round has written to is known no longer in the turns after the first.
                if not self._widen(before, after) and self.tape.writes == written:
                    outputs = [scalars.argument(going)]
                    for one, value in zip(self.templates, after, strict=True):
                        outputs += leaves(one, value, self.tape)
                    outputs += self.contents.leaves({index: cell.content for index, cell in self.contents})
                    return Region(params, calls, outputs)
        raise CaptureError(
            "a loop whose number of turns only the run tells changes its variables in ever new ways",
            source=self.source,
            hint="give the variables their final type and number of axes before the loop",
        )

    def _parameters(self) -> tuple[list[tuple[str, Spec]], Value, Any]:
        """Parameters of the body, the number of the turn, and a value for each state."""
        tape = self.tape
        turn_name = tape.claim("turn")
        turn = tape.wrap(Ref(turn_name), tape.fresh("int", size=True))
        params: list[tuple[str, Spec]] = [(turn_name, ScalarSpec("int", str(tape.converter.dim(turn.sym))))]
        values = []
        for one in self._all_templates():
            for fake in fakes(one, tape):
                name = tape.claim("state")
                params.append((name, tape.spec(fake)))
                values.append(tape.wrap(Ref(name), fake))
        return params, turn, iter(values)

    def _widen(self, before: Snapshot, after: list[Value]) -> bool:
        """Take in what the body leaves; whether anything became more general."""
        new = [unify(one, value, self.tape) for one, value in zip(self.templates, after, strict=True)]
        wider = new != self.templates
        self.templates = new
        known = {index: (cell, cell.content) for index, cell in self.contents}
        for index, (cell, content) in (known | self.tape.changed(before)).items():
            wider = self.contents.add(index, cell, before.held(cell), [content]) or wider
        return wider
