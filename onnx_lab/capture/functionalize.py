"""Writes and aliases become values: afterwards every call is pure.

A value is a root or a view of another. Reading a view whose root was written since replays the view;
writing through a view applies its inverse to the value behind it, up to the root. What is not
understood is refused. One walk, linear in the size of the graph.
"""

from __future__ import annotations

import itertools
from collections import ChainMap
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch

from onnx_lab.capture.bodies import Sharing, convert_bodies
from onnx_lab.capture.schema import aliasing, argument_names, bound_arguments, dtype_of, functional_key
from onnx_lab.capture.shared_weights import share_weights
from onnx_lab.capture.statistics import update_statistics, writes_statistics
from onnx_lab.capture.views import IDENTITY, View, Write, invert, refused
from onnx_lab.program.graph import Call, CapturedGraph, Ref, StateWrite, map_refs, refs_in
from onnx_lab.program.op_key import OpKey
from onnx_lab.program.spec import DType, Spec, TensorSpec

# In-place operators that only change how the tensor itself is seen.
_METADATA = frozenset(
    {"aten::detach_", "aten::squeeze_", "aten::squeeze_.dim", "aten::squeeze_.dims", "aten::unsqueeze_", "aten::t_"}
    | {"aten::transpose_", "aten::swapaxes_", "aten::swapdims_", "aten::requires_grad_"}
)
_REFUSED = frozenset({"resize_", "set_", "resize_as_", "swap_", "sparse_resize_", "as_strided_"})
# Their functional form has the promoted type of its operands, or bool.
_PROMOTING = frozenset(
    "add sub mul div pow remainder fmod floor_divide addcmul addcdiv lerp atan2 xlogy hypot true_divide subtract "
    "multiply divide copysign bitwise_and bitwise_or bitwise_xor __and__ __or__ __xor__".split()
)
_TO_BOOL = frozenset("eq ne lt le gt ge logical_and logical_or logical_xor logical_not".split())


def functionalize(graph: CapturedGraph) -> None:
    """Replace every write in ``graph``, in place. A graph without writes is left untouched.

    Afterwards outputs refer to current values, and ``graph.state_writes`` tells what the module's
    buffers and parameters hold after the call.

    Raises:
        MutationError: a write or an alias that is not understood.
    """
    if not any(aliasing(call.key).writes or writes_statistics(call) for call in graph.all_calls()):
        return
    worker = Functionalizer(graph.specs(), _names(graph))
    share_weights(worker, graph.weights.values())
    graph.calls = worker.run(graph.calls)
    for output in graph.outputs:
        output.value = map_refs(output.value, worker.now)
    # Reading outputs may have replayed views.
    graph.calls = worker.calls
    written = {one.target for one in graph.state_writes}
    for name, weight in graph.weights.items():
        if worker.was_written(name) and weight.target not in written:
            graph.state_writes.append(StateWrite(weight.target, worker.read(Ref(name))))
    for given in graph.inputs:
        if worker.was_written(given.name) and not given.state:
            graph.notes.append(f"forward writes to its input {given.name}: the exported model leaves it as it is")


def drop_dead_calls(graph: CapturedGraph, *, keep_state: bool = False) -> None:
    """Remove calls that no output needs (with ``keep_state``: and no state write)."""
    needed = {ref.name for output in graph.outputs for ref in refs_in(output.value)}
    if keep_state:
        needed |= {ref.name for one in graph.state_writes for ref in refs_in(one.value)}
    graph.calls = _live(graph.calls, needed)


def _live(calls: list[Call], needed: set[str]) -> list[Call]:
    """The calls that a set of values needs, also inside bodies; the set grows by what they need."""
    kept = []
    for call in reversed(calls):
        if call.name in needed:
            for region in call.regions:
                region.calls = _live(region.calls, {ref.name for ref in refs_in(region.outputs)})
            kept.append(call)
            needed |= {ref.name for ref in call.refs()}
    return kept[::-1]


def _names(graph: CapturedGraph) -> set[str]:
    """Every name of the program, those inside bodies included."""
    inside = (name for call in graph.all_calls() for region in call.regions for name, _ in region.params)
    return {*graph.specs(), *(call.name for call in graph.all_calls()), *inside}


class Functionalizer:
    """One walk over the calls of a graph, or of a body inside it: see the module."""

    def __init__(self, specs: dict[str, Spec], taken: set[str]) -> None:
        self.calls: list[Call] = []
        # Tables of a body lie on those of its outside: what it changes stays in it.
        self.specs: ChainMap[str, Spec] = ChainMap(dict(specs))
        self.sharing = Sharing()
        self._views: ChainMap[str, View] = ChainMap()
        self._current: ChainMap[str, Ref] = ChainMap()
        self._version: ChainMap[str, int] = ChainMap()  # of roots: number of writes so far
        self._seen: ChainMap[str, int] = ChainMap()  # version of its root at which a value's current form was made
        # Of values whose own metadata was changed in place: their newest form.
        self._latest: ChainMap[str, Ref] = ChainMap()
        self._taken = taken  # names, in the whole program

    def inside(self, params: Iterable[tuple[str, Spec]]) -> Functionalizer:
        """The walk over a body with these parameters."""
        child = Functionalizer({}, self._taken)
        for table in ("specs", "_views", "_current", "_version", "_seen", "_latest"):
            setattr(child, table, getattr(self, table).new_child())
        child.specs.update(params)
        child.sharing = self.sharing.inside()
        return child

    def bind(self, name: str, value: Ref) -> None:
        """Before the first call of a body: an outer value is held by one of the body's parameters."""
        self._version[name] = self._version.get(name, 0) + 1
        self._current[name] = value
        self._seen[name] = self._version[name]

    def written(self) -> list[str]:
        """Values of the outside that this body has written, in order of their first write."""
        return [name for name in self._version.maps[0] if name in self.specs.parents]

    def reshaped_outside(self) -> str | None:
        """A value of the outside whose own metadata this body has changed."""
        return next((name for name in self._latest.maps[0] if name in self.specs.parents), None)

    def alias(self, name: str, view: View) -> None:
        """Before the first call: a value lies in the memory of another."""
        self._views[name] = view

    # -- the walk -----------------------------------------------------------------------------------

    def run(self, calls: Iterable[Call]) -> list[Call]:
        for given in calls:
            call = self._resolved(given)
            self.specs[call.name] = call.spec
            self.sharing.at = call
            if call.regions:
                convert_bodies(self, call)
            elif writes_statistics(call):
                self._pure_call(call)
                update_statistics(self, call)
            elif aliasing(call.key).writes:
                self._write_call(call)
            else:
                self._pure_call(call)
                if call.key.startswith("list::"):
                    self._share_items(call)
        return self.calls

    def _share_items(self, call: Call) -> None:
        """A list holds tensors, it does not copy them: what is read from it is one of those put into it."""
        roots = (self.root(ref.name) for ref in refs_in(call.args))
        self.sharing.share(call.name, frozenset[str]().union(*(self.sharing.origins(root) for root in roots)))

    def latest(self, ref: Ref) -> Ref:
        """What a name in the captured graph means now: after ``x.unsqueeze_(0)``, the unsqueezed x."""
        while ref.name in self._latest:
            ref = self._latest[ref.name]
        return ref

    def now(self, ref: Ref) -> Ref:
        """The value that a name in the captured graph has now."""
        return self.read(self.latest(ref))

    def _resolved(self, call: Call) -> Call:
        if not self._latest:
            return call
        regions = tuple(
            replace(
                region,
                calls=[self._resolved(inner) for inner in region.calls],
                outputs=map_refs(region.outputs, self.latest),
            )
            for region in call.regions
        )
        args, kwargs = map_refs(call.args, self.latest), map_refs(call.kwargs, self.latest)
        return replace(call, args=args, kwargs=kwargs, regions=regions)

    def _pure_call(self, call: Call) -> None:
        base = self._aliased(call)
        self.calls.append(replace(call, args=map_refs(call.args, self.read), kwargs=map_refs(call.kwargs, self.read)))
        if call.key == "_operator::getitem" and isinstance(call.args[0], Ref):
            self.sharing.pick(call.args[0].name, call.args[1], call.name)
        if base is not None:
            self._views[call.name] = self._view_of(call, base)
            self._seen[call.name] = self._version.get(self.root(call.name), 0)

    def _view_of(self, call: Call, base: str) -> View:
        """How a value lies in its base; a getitem on split and the like goes to what was split."""
        if call.key == "_operator::getitem" and base in self._views and isinstance(self.specs.get(base), tuple):
            outer = self._views[base]
            return View(outer.base, outer.call, call.spec, call.args[1])
        return View(base, call, call.spec)

    def _aliased(self, call: Call) -> str | None:
        """The argument that the result shares memory with, if any."""
        if call.key == "_operator::getitem":
            name = call.args[0].name if isinstance(call.args[0], Ref) else ""
            return name if name in self._views else None
        views = aliasing(call.key).views
        if not views and not _shares(call.spec):
            return None
        names = [ref.name for ref in refs_in((call.args, call.kwargs))]
        storages = _storages(call.spec)
        if storages:
            for name in names:
                if storages & _storages(self.specs.get(name)):
                    return name
            return None
        if not views:
            return None
        value = bound_arguments(call).get(views[0])
        return value.name if isinstance(value, Ref) else None

    # -- reading ------------------------------------------------------------------------------------

    def read(self, ref: Ref) -> Ref:
        """The value that a name stands for now; a stale view is replayed."""
        name = ref.name
        root = self.root(name)
        self.sharing.check(root)
        version = self._version.get(root, 0)
        if self._seen.get(name, 0) == version:
            return self._current.get(name, Ref(name))
        view = self._views.get(name)
        if view is None:
            return self._current.get(name, Ref(name))
        self._current[name] = self._replay(name, view)
        self._seen[name] = version
        return self._current[name]

    def _replay(self, name: str, view: View) -> Ref:
        base = self.read(Ref(view.base))
        if view.call.key == IDENTITY:
            return base

        def moved(ref: Ref) -> Ref:
            return base if ref.name == view.base else self.read(ref)

        args, kwargs = map_refs(view.call.args, moved), map_refs(view.call.kwargs, moved)
        again = self.emit(view.call, view.call.key, args, view.call.spec, kwargs)
        if view.index is None:
            return again
        return self.emit(view.call, "_operator::getitem", (again, view.index), view.spec)

    def root(self, name: str) -> str:
        while name in self._views:
            name = self._views[name].base
        return name

    def _same_place(self, one: str, other: str) -> bool:
        """Whether two values are the same elements of the same memory."""
        one, other = self._place(one), self._place(other)
        if one == other:
            return True
        if one not in self._views or other not in self._views:
            return False
        a, b = self._views[one], self._views[other]
        alike = (a.call.key, a.call.args[1:], a.call.kwargs, a.index) == (
            b.call.key,
            b.call.args[1:],
            b.call.kwargs,
            b.index,
        )
        return alike and self._same_place(a.base, b.base)

    def _place(self, name: str) -> str:
        """The value that a name is only another name of."""
        while name in self._views and self._views[name].call.key == IDENTITY:
            name = self._views[name].base
        return name

    def was_written(self, name: str) -> bool:
        return self._version.get(name, 0) > 0

    # -- writing ------------------------------------------------------------------------------------

    def _write_call(self, call: Call) -> None:
        parts = OpKey(call.key)
        if call.key in _METADATA:
            self._change_metadata(call)
            return
        if parts.name in _REFUSED:
            raise refused(call, f"{call.key} changes a tensor's storage")
        pure = functional_key(call.key)
        if pure is None:
            raise refused(call, f"{call.key} has no functional form")
        given = bound_arguments(call)
        writes = aliasing(call.key).writes
        targets = [given[name] for name in writes if isinstance(given.get(name), Ref)]
        in_place = writes == argument_names(call.key)[:1]
        if in_place:
            args, kwargs = call.args, call.kwargs
        else:
            args = call.args
            kwargs = {name: value for name, value in call.kwargs.items() if name not in writes}
        args, kwargs = map_refs(args, self.read), map_refs(kwargs, self.read)
        source = given.get("src")
        if pure == "aten::copy" and isinstance(source, Ref) and self._same_place(targets[0].name, source.name):
            # ``x[i] += 1`` adds in place and then stores the sum where it already is.
            self._views[call.name] = View(targets[0].name, Call(call.name, OpKey(IDENTITY)), call.spec)
            self._current[call.name] = args[0]
            self._seen[call.name] = self._version.get(self.root(targets[0].name), 0)
            return
        self._compute(call, pure, args, kwargs, targets, given)

    def _compute(
        self, call: Call, pure: OpKey, args: Any, kwargs: Any, targets: list[Ref], given: dict[str, Any]
    ) -> None:
        """The functional call under the name of the written one, then one write for each target."""
        if len(targets) > 1:
            made = self.emit(call, pure, args, call.spec, kwargs, name=call.name)
            for index, target in enumerate(targets):
                part = self.emit(call, "_operator::getitem", (made, index), self.specs[target.name])
                self.write(call, target.name, part)
            return
        target = targets[0]
        spec = self.specs[target.name]
        assert isinstance(spec, TensorSpec)
        natural = self._natural_dtype(pure, spec, given)
        if natural == spec.dtype:
            made = self.emit(call, pure, args, spec, kwargs, name=call.name)
        else:
            raw = self.emit(call, pure, args, replace(spec, dtype=natural), kwargs)
            made = self.emit(call, "aten::to.dtype", (raw, DType(spec.dtype)), spec, name=call.name)
        self.write(call, target.name, made)
        self._views[call.name] = View(target.name, Call(call.name, OpKey(IDENTITY)), spec)
        self._current[call.name] = made
        self._seen[call.name] = self._version[self.root(target.name)]

    def _natural_dtype(self, pure: OpKey, spec: TensorSpec, given: dict[str, Any]) -> str:
        """Dtype of the functional form, where it may differ from that of the tensor written."""
        if pure.name in _TO_BOOL:
            return "bool"
        if pure.name not in _PROMOTING:
            return spec.dtype
        samples = []
        for value in given.values():
            one = self.specs.get(value.name) if isinstance(value, Ref) else None
            if isinstance(one, TensorSpec):
                samples.append(torch.empty((1,) * one.rank, dtype=dtype_of(one.dtype), device="meta"))
        result = samples[0].dtype
        for left, right in itertools.pairwise(samples):
            result = torch.promote_types(result, torch.result_type(left, right))
        if pure.name in ("div", "true_divide", "divide") and not result.is_floating_point and not result.is_complex:
            result = torch.float32
        return str(result).removeprefix("torch.")

    def _change_metadata(self, call: Call) -> None:
        """x.unsqueeze_(0): from here on the name of x stands for the new view."""
        target = call.args[0]
        assert isinstance(target, Ref)
        name = target.name
        pure = OpKey(call.key.replace("_.", ".") if "_." in call.key else call.key.removesuffix("_"))
        if pure == "aten::transpose":
            pure = OpKey("aten::transpose.int")
        if pure.name in ("detach", "requires_grad"):
            self._views[call.name] = View(name, Call(call.name, OpKey(IDENTITY)), call.spec)
            self._current[call.name] = self.read(Ref(name))
            self._seen[call.name] = self._version.get(self.root(name), 0)
            return
        made = replace(call, key=pure, args=(Ref(name), *call.args[1:]))
        self._views[call.name] = View(name, made, call.spec)
        self._seen[call.name] = self._version.get(self.root(name), 0)
        self.calls.append(replace(made, args=(self.read(Ref(name)), *call.args[1:])))
        self._latest[name] = Ref(call.name)

    def write(self, call: Call, name: str, new: Ref) -> None:
        """``name`` holds ``new`` from now on, and so do the matching parts of all that is behind it."""
        changed = [(name, new)]
        while name in self._views:
            view = self._views[name]
            new = self._inverse(call, view, self.read(Ref(view.base)), new)
            changed.append((view.base, new))
            name = view.base
        version = self._version.get(name, 0) + 1
        self._version[name] = version
        self.sharing.write(name)
        for one, value in changed:
            self._current[one] = value
            self._seen[one] = version

    def _inverse(self, call: Call, view: View, base: Ref, new: Ref) -> Ref:
        base_spec, view_spec = self.specs[view.base], view.spec
        if view.call.key == IDENTITY:
            return new
        if isinstance(base_spec, TensorSpec) and isinstance(view_spec, TensorSpec):
            write = Write(
                view.call, view.index, base, new, base_spec, view_spec,
                lambda key, args, spec: self.emit(call, key, map_refs(args, self._fresh), spec),
            )  # fmt: skip
            if (found := invert(write)) is not None:
                return found
        raise refused(call, f"the write goes through {view.call.key}, whose inverse is not known")

    def _fresh(self, ref: Ref) -> Ref:
        """Sizes among a view's arguments are read as any value; base and new value are current already."""
        return ref if isinstance(self.specs.get(ref.name), TensorSpec) else self.read(ref)

    def emit(self, origin: Call, key: str, args: Any, spec: Spec, kwargs: Any = None, name: str | None = None) -> Ref:
        name = name or self.unique(f"{origin.name}_{OpKey(key).name}")
        self._taken.add(name)
        self.specs[name] = spec
        self.calls.append(Call(name, OpKey(key), tuple(args), dict(kwargs or {}), spec, origin.source))
        return Ref(name)

    def unique(self, stem: str) -> str:
        name, number = stem, 1
        while name in self._taken:
            name, number = f"{stem}_{number}", number + 1
        return name


def _shares(spec: Spec) -> bool:
    return bool(_storages(spec))


def _storages(spec: Spec) -> set[int]:
    if isinstance(spec, TensorSpec):
        return set() if spec.storage is None else {spec.storage}
    if isinstance(spec, tuple):
        return {storage for one in spec for storage in _storages(one)}
    return set()
