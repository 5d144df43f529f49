"""Bodies of branches and loops under functionalization: what they write outside becomes a result of the call.

A branch hands the new value out of both sides, a loop carries it from turn to turn. A result may be the very
memory of an outer value on one path and not on another; no graph of values can follow a write to either, so
reading the other one afterwards is refused.
"""

from __future__ import annotations

import itertools
from collections import ChainMap
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from onnx_lab.capture.views import refused
from onnx_lab.errors import MutationError
from onnx_lab.program.graph import Call, Ref, Region, map_refs

if TYPE_CHECKING:
    from onnx_lab.capture.functionalize import Functionalizer

BRANCH, LOOP = "higher_order::cond", "script::loop"


class Sharing:
    """Which values may be the same memory on some path only, and which of them were written since.

    Attributes:
        at: the call being converted, for the error.
    """

    def __init__(self) -> None:
        self.at: Call | None = None
        self._clock = itertools.count(1)
        self._origins: dict[str, frozenset[str]] = {}
        self._born: dict[str, int] = {}
        self._results: dict[str, list[frozenset[str]]] = {}
        # By memory: who wrote it last when.
        self._touched: ChainMap[str, dict[str, int]] = ChainMap()

    def inside(self) -> Sharing:
        """For a body: its writes are kept apart until ``merge``."""
        child = Sharing()
        child.at, child._clock, child._touched = self.at, self._clock, self._touched.new_child()
        child._origins, child._born, child._results = self._origins, self._born, self._results
        return child

    def merge(self, child: Sharing) -> None:
        for memory, writers in child._touched.maps[0].items():
            self._touched[memory] = self._touched.get(memory, {}) | writers

    def origins(self, root: str) -> frozenset[str]:
        """The memories that a root may be."""
        return self._origins.get(root, frozenset()) | {root}

    def share(self, root: str, memories: frozenset[str]) -> None:
        """From now on ``root`` may be one of these memories."""
        self._origins[root] = self._origins.get(root, frozenset()) | memories
        self._born[root] = next(self._clock)

    def results(self, call: str, memories: list[frozenset[str]]) -> None:
        self._results[call] = memories

    def pick(self, call: str, index: Any, name: str) -> None:
        if call in self._results:
            self.share(name, self._results[call][index])

    def write(self, root: str) -> None:
        now = next(self._clock)
        for memory in self.origins(root):
            self._touched[memory] = self._touched.get(memory, {}) | {root: now}

    def check(self, root: str) -> None:
        """Raises MutationError when a value that may be the same memory was written since ``root`` was made."""
        if not self._touched:
            return
        born = self._born.get(root, 0)
        for memory in self.origins(root):
            for writer, when in self._touched.get(memory, {}).items():
                if writer != root and when > born:
                    raise self._refused(root, writer)

    def _refused(self, root: str, writer: str) -> MutationError:
        call = self.at
        return MutationError(
            f"{root} is read after a write to {writer}, which is the same memory on one path of a branch or loop only",
            op=None if call is None else call.key,
            source=None if call is None else call.source,
            seen="" if call is None else f"{call.name} = {call.key}",
            hint="return a clone from the branch: y = x.clone()",
        )


def convert_bodies(walker: Functionalizer, call: Call) -> None:
    """Append ``call`` with converted bodies, and make what they wrote outside the current value there.

    Raises:
        MutationError: a write that is not understood.
    """
    regions, args = call.regions, call.args
    bodies, outputs = _walk(walker, call, regions, {})
    written = list(dict.fromkeys(name for body in bodies for name in body.written()))
    if written and call.key == LOOP:
        carried = {name: walker.unique(f"{call.name}_{name}") for name in written}
        params = [(carried[name], walker.specs[name]) for name in written]
        regions = tuple(Region([*region.params, *params], region.calls, region.outputs) for region in regions)
        bodies, outputs = _walk(walker, call, regions, carried)
        args = (*args[:2], [*args[2], *map(Ref, written)], *args[3:])
    elif written and call.key != BRANCH:
        raise _refused(call, f"a body of {call.key} writes to {written[0]}, which it was given")
    made = tuple(
        Region(region.params, body.calls, [*values, *(body.read(Ref(name)) for name in written)])
        for region, body, values in zip(regions, bodies, outputs, strict=True)
    )
    own = call.spec if isinstance(call.spec, tuple) else ()
    spec = (*own, *(walker.specs[name] for name in written)) if written else call.spec
    read = {"args": map_refs(args, walker.read), "kwargs": map_refs(call.kwargs, walker.read)}
    walker.calls.append(replace(call, regions=made, spec=spec, **read))
    walker.specs[call.name] = spec
    for body in bodies:
        walker.sharing.merge(body.sharing)
    walker.sharing.results(call.name, _memories(walker, call, bodies))
    for index, name in enumerate(written, len(own)):
        result = walker.emit(call, "_operator::getitem", (Ref(call.name), index), walker.specs[name])
        walker.write(call, name, result)


def _walk(
    walker: Functionalizer, call: Call, regions: tuple[Region, ...], carried: dict[str, str]
) -> tuple[list[Functionalizer], list[list[Any]]]:
    """The converted bodies, and what their outputs are; ``carried``: parameters that hold outer values."""
    bodies, outputs = [], []
    for region in regions:
        body = walker.inside(region.params)
        for name, param in carried.items():
            body.bind(name, Ref(param))
        if call.key == LOOP:
            for (param, _), start in zip(region.params[1:], call.args[2], strict=False):
                if isinstance(start, Ref):
                    body.sharing.share(param, walker.sharing.origins(walker.root(start.name)))
        body.run(region.calls)
        if (changed := body.reshaped_outside()) is not None:
            raise _refused(call, f"a body changes the shape of {changed} in place, which it was given")
        bodies.append(body)
        outputs.append(map_refs(list(region.outputs), body.now))
    return bodies, outputs


def _memories(walker: Functionalizer, call: Call, bodies: list[Functionalizer]) -> list[frozenset[str]]:
    """For each result of the call the memories that it may be."""
    found: list[frozenset[str]] = []
    skipped = 1 if call.key == LOOP else 0  # a loop's body tells first whether to go on
    for body, region in zip(bodies, call.regions, strict=True):
        for index, value in enumerate(region.outputs[skipped:]):
            memories = body.sharing.origins(body.root(value.name)) if isinstance(value, Ref) else frozenset()
            if index == len(found):
                found.append(frozenset())
            found[index] |= memories
    if call.key == LOOP:
        for index, start in enumerate(call.args[2]):
            if isinstance(start, Ref):
                found[index] |= walker.sharing.origins(walker.root(start.name))
    return found


def _refused(call: Call, what: str) -> MutationError:
    return refused(call, what, "write to a clone made inside: y = x.clone(); y[...] = ...")
