"""The calls that an evaluation leaves, and the values that stand for their results."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, statically_known_true
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges

from onnx_lab.capture.converter import FxConverter
from onnx_lab.capture.sizes import SymbolNames
from onnx_lab.capture.torchscript.assumptions import Broadcasting, forgotten_after
from onnx_lab.capture.torchscript.values import (
    Cell,
    DictCell,
    ListCell,
    Number,
    ObjectCell,
    Sequence,
    TensorValue,
    Value,
)
from onnx_lab.program.graph import Call, Ref, Weight
from onnx_lab.program.op_key import OpKey
from onnx_lab.program.source import UNKNOWN, Source
from onnx_lab.program.spec import ListSpec, ScalarSpec, Spec, TensorSpec

C = TypeVar("C", ListCell, DictCell, ObjectCell)


class Attempt:
    """Calls that are kept only if they are accepted."""

    def __init__(self) -> None:
        self.accepted = False

    def accept(self) -> None:
        self.accepted = True


class NeedsSymbolsError(Exception):
    """An evaluation on plain shapes meets something that only the run tells."""


class Tape:
    """Records calls, block by block.

    Args:
        reserved: names that no call may take.
        plain: whether all sizes are known: operators then run on meta tensors, which is a good deal faster than
            on symbolic ones. What turns out to need symbols raises NeedsSymbolsError.

    Attributes:
        calls: of the block that is open.
        source: of what is evaluated now.
        weights: by name.
    """

    def __init__(self, reserved: set[str], *, plain: bool = False) -> None:
        self.plain = plain
        self.environment = ShapeEnv()
        self.mode = FakeTensorMode(shape_env=self.environment, allow_non_fake_inputs=True)
        self.symbols = SymbolNames()
        self.converter = FxConverter(self.symbols.rename)
        self.calls: list[Call] = []
        self.weights: dict[str, Weight] = {}
        self.notes: list[str] = []
        self.source: Source = UNKNOWN
        self.conditional = 0  # how many branches and loops are open
        self._taken = set(reserved)
        self._numbers: ChainMap[Any, Ref] = ChainMap()
        self._cells: dict[int, Cell] = {}
        self._lasting: dict[int, Any] = {}
        self._weight_values: dict[int, TensorValue] = {}
        self._next: dict[str, int] = {}
        self.broadcasting = Broadcasting(self.environment, self.fake, lambda: self.fresh("int", size=True))
        self._fresh_sizes: set[Any] = set()
        self._written: set[int] = set()

    # -- names --------------------------------------------------------------------------------------

    def claim(self, wanted: str) -> str:
        name, number = wanted, self._next.get(wanted, 1)
        while name in self._taken:
            name, number = f"{wanted}_{number}", number + 1
        self._next[wanted] = number
        self._taken.add(name)
        return name

    # -- fakes --------------------------------------------------------------------------------------

    @contextmanager
    def abstractly(self) -> Iterator[None]:
        """Inside, operators run on shapes only."""
        if self.plain:
            with torch.no_grad():
                yield
            return
        with ExitStack() as stack:
            stack.enter_context(torch.no_grad())
            stack.enter_context(self.mode)
            stack.enter_context(enable_python_dispatcher())
            yield

    def input_size(self, name: str, example: int, lower: int | None, upper: int | None) -> torch.SymInt:
        """The size of a dynamic axis of an input."""
        source = ConstantSource(name)
        symbol = self.environment.create_symbol(
            example, source=source, dynamic_dim=DimDynamic.DYNAMIC, do_not_specialize_zero_one=True, positive=None
        )
        self.environment.var_to_range[symbol] = ValueRanges(lower or 0, int_oo if upper is None else upper)
        made = self.environment.create_symintnode(symbol, hint=example, source=source)
        assert isinstance(made, torch.SymInt)
        return made

    def fresh(self, kind: str, *, size: bool = False) -> Any:
        """Something of which only the run tells the value; a ``size`` is not negative."""
        if self.plain:
            raise NeedsSymbolsError
        if kind == "float":
            return self.environment.create_unbacked_symfloat()
        if kind == "bool":
            return self.environment.create_unbacked_symbool()
        made = self.environment.create_unbacked_symint()
        if size:
            torch._check(made >= 0)
            self._fresh_sizes.add(made.node.expr)
        return made

    def is_fresh(self, size: Any) -> bool:
        """Whether a size is one that only the run tells: no dim of an input takes part in it."""
        return any(symbol in self._fresh_sizes for symbol in size.node.expr.free_symbols)

    def fake(self, dtype: torch.dtype, shape: Any) -> torch.Tensor:
        with self.abstractly():
            return torch.empty(tuple(shape), dtype=dtype, device=self.device)

    @property
    def device(self) -> torch.device:
        """Where operators run abstractly; the exported model has no devices."""
        return torch.device("meta" if self.plain else "cpu")

    @contextmanager
    def ranges_kept(self, kept: bool) -> Iterator[None]:
        """Inside, with ``kept``, what is learned of the range of a size is forgotten."""
        before = dict(self.environment.var_to_range) if kept else {}
        try:
            yield
        finally:
            self.environment.var_to_range.update(before)

    # -- calls --------------------------------------------------------------------------------------

    def emit(
        self, key: str, args: tuple[Any, ...], result: Any, *, kwargs: dict[str, Any] | None = None,
        regions: tuple[Any, ...] = (), name: str | None = None,
    ) -> Value:  # fmt: skip
        """Append a call; ``result`` tells what is known of its results (fakes, symbolic numbers, tuples of them)."""
        op = OpKey(key)
        call_name = self.claim(name or op.name.strip("_") or "call")
        self.calls.append(Call(call_name, op, args, kwargs or {}, self.spec(result), self.source, regions))
        return self.wrap(Ref(call_name), result)

    def wrap(self, ref: Ref, result: Any) -> Value:
        """The value that a result is: several results are picked one by one."""
        if isinstance(result, (tuple, list)):
            items = tuple(
                self.emit("_operator::getitem", (ref, index), one, name=f"{ref.name}_{index}")
                for index, one in enumerate(result)
            )
            return items if isinstance(result, tuple) else self.list(list(items))
        if isinstance(result, torch.Tensor):
            return TensorValue(result, ref)
        if isinstance(result, Sequence):
            return Sequence(ref, result.item, result.numbers)
        if isinstance(result, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return self.number(result, ref)
        return result

    def number(self, sym: Any, ref: Ref) -> Value:
        """A computed number; one that turns out to be known is a plain Python number."""
        expression = sym.node.expr
        if getattr(expression, "is_Integer", False) and isinstance(sym, torch.SymInt):
            return int(expression)
        if isinstance(sym, torch.SymBool):
            if statically_known_true(sym):
                return True
            if statically_known_true(torch.sym_not(sym)):
                return False
        self._numbers.setdefault(expression, ref)
        return Number(sym, ref)

    def size(self, tensor: TensorValue, axis: int) -> Value:
        """One size of a tensor: an int where that is known."""
        found: Any = tensor.fake.shape[axis]
        if isinstance(found, int):
            return found
        known = self._numbers.get(found.node.expr)
        if known is not None:
            return Number(found, known)
        return self.emit("aten::sym_size.int", (tensor.ref, axis), found, name=f"{tensor.ref.name}_size")

    def note_write(self, tensor: TensorValue) -> None:
        """A call writes to a tensor: what is known of what it holds, under whatever name, is known no longer."""
        self._written.add(_memory(tensor))

    @property
    def writes(self) -> int:
        """How many memories have been written to so far."""
        return len(self._written)

    def number_in(self, tensor: TensorValue) -> Value:
        """The number that a tensor is known to hold; None when it is not known."""
        return None if tensor.number is None or _memory(tensor) in self._written else tensor.number

    def data_of(self, tensor: TensorValue) -> torch.Tensor | None:
        """The elements of a small constant; None when they are not known."""
        return None if tensor.data is None or _memory(tensor) in self._written else tensor.data

    def spec(self, value: Any) -> Spec:
        if isinstance(value, Sequence):
            item = self.converter.spec(value.item)
            assert isinstance(item, TensorSpec)
            return ListSpec(item.dtype, item.shape)
        if isinstance(value, (torch.SymInt, int)) and not isinstance(value, bool):
            return ScalarSpec("int", str(self.converter.dim(value)))
        if isinstance(value, (tuple, list)):
            return tuple(map(self.spec, value))
        return self.converter.spec(value)

    def weight(self, tensor: torch.Tensor, target: str, kind: str) -> TensorValue:
        """A parameter, buffer or constant of the program."""
        found = self._weight_values.get(id(tensor))
        if found is None:
            name = self.claim(target.replace(".", "_") or "constant")
            fake = self._like(tensor)
            spec = self.converter.spec(fake)
            assert isinstance(spec, TensorSpec)
            self.weights[name] = Weight(name, spec, tensor, kind, target)
            found = TensorValue(fake, Ref(name))
            self._weight_values[id(tensor)] = found
        return found

    def _like(self, tensor: torch.Tensor) -> torch.Tensor:
        if self.plain:
            return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")
        return self.mode.from_tensor(tensor.detach(), static_shapes=True)

    def is_weight(self, value: TensorValue) -> bool:
        return value.ref.name in self.weights

    # -- blocks -------------------------------------------------------------------------------------

    @contextmanager
    def block(self, calls: list[Call] | None = None) -> Iterator[list[Call]]:
        """Inside, calls go to a list of their own (or on a given one); what is learned of numbers stays inside."""
        outer_calls, outer_numbers = self.calls, self._numbers
        self.calls = [] if calls is None else calls
        self._numbers = outer_numbers.new_child()
        self.conditional += 1
        try:
            with forgotten_after(self.environment):
                yield self.calls
        finally:
            self.calls, self._numbers = outer_calls, outer_numbers
            self.conditional -= 1

    @contextmanager
    def attempt(self) -> Iterator[Attempt]:
        """Inside, calls and numbers are kept only if they are accepted."""
        outer_calls, outer_numbers = self.calls, self._numbers
        self.calls, self._numbers = [], outer_numbers.new_child()
        made = Attempt()
        try:
            yield made
        finally:
            calls, numbers = self.calls, self._numbers.maps[0]
            self.calls, self._numbers = outer_calls, outer_numbers
            if made.accepted:
                self.calls += calls
                self._numbers.update(numbers)

    # -- cells --------------------------------------------------------------------------------------

    def list(self, items: list[Value]) -> ListCell:
        return self.cell(ListCell(items))

    def cell(self, made: C, *, lasting: bool = False) -> C:
        """A new cell; a ``lasting`` one was there before the call, whenever it is first looked at."""
        self._cells[id(made)] = made
        if lasting:
            self._lasting[id(made)] = copied_content(made.content)
        return made

    def snapshot(self) -> Snapshot:
        """What every cell holds now."""
        return Snapshot({key: (cell, copied_content(cell.content)) for key, cell in self._cells.items()}, self._lasting)

    def restore(self, snapshot: Snapshot) -> None:
        """Cells hold again what they held; those made since are forgotten."""
        for key in [key for key in self._cells if not snapshot.knows(key)]:
            del self._cells[key]
        for cell in self._cells.values():
            cell.content = copied_content(snapshot.held(cell))

    def changed(self, snapshot: Snapshot) -> dict[int, tuple[Cell, Any]]:
        """Cells of a snapshot that hold something else now, with what they hold."""
        return {
            key: (cell, copied_content(cell.content))
            for key, cell in self._cells.items()
            if snapshot.knows(key) and not same_content(cell.content, snapshot.held(cell))
        }


class Snapshot:
    """What cells held at one moment; a lasting cell that was looked at later held what it held before the call."""

    def __init__(self, held: dict[int, tuple[Cell, Any]], lasting: dict[int, Any]) -> None:
        self._held, self._lasting = held, lasting

    def knows(self, key: int) -> bool:
        return key in self._held or key in self._lasting

    def held(self, cell: Cell) -> Any:
        key = id(cell)
        return self._held[key][1] if key in self._held else self._lasting[key]


def _memory(tensor: TensorValue) -> int:
    return int(tensor.fake.untyped_storage()._cdata)


def copied_content(content: Any) -> Any:
    """What a cell holds, in a list or dict of its own."""
    if isinstance(content, list):
        return list(content)
    return dict(content) if isinstance(content, Mapping) else content


def same_content(one: Any, other: Any) -> bool:
    """Whether two contents of a cell are one and the same."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same_value, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_value(one[key], other[key]) for key in one)
    return one is other


def same_value(one: Value, other: Value) -> bool:
    """Whether two values are one and the same: equal plain data, or the same object."""
    if one is other:
        return True
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(same_value, one, other))
    if isinstance(one, Number) and isinstance(other, Number):
        return one.ref == other.ref
    if isinstance(one, TensorValue) and isinstance(other, TensorValue):
        return one.ref == other.ref
    if type(one) is not type(other):
        return False
    if isinstance(one, (float, complex)):
        return repr(one) == repr(other)  # NaN is itself, and zero has a sign
    return isinstance(one, (int, str, torch.dtype, torch.device)) and one == other
