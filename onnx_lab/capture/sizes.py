"""After capture: names of symbolic dims, frozen axes, and branches that a size decided."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch
from torch.export.graph_signature import OutputKind
from torch.utils import _pytree as pytree

from onnx_lab.capture.refusals import refuses_otherwise
from onnx_lab.capture.shapes import ShapeRequest, requested_axes
from onnx_lab.capture.signature import CallSignature
from onnx_lab.capture.sources import is_torch_file
from onnx_lab.errors import CaptureError
from onnx_lab.program.source import Source
from onnx_lab.program.spec import SymbolInfo


@dataclass(slots=True)
class Branch:
    """A Python decision on a symbolic size, made by code outside torch."""

    expression: Any
    taken: bool
    source: Source

    @property
    def refuses(self) -> bool:
        """Whether its other side is an error of the model's own."""
        return refuses_otherwise(self.source.file, self.source.line)


@dataclass(slots=True)
class BranchRecorder:
    """Collects the decisions taken while a model is captured."""

    branches: list[Branch] = field(default_factory=list)

    @contextmanager
    def recording(self) -> Iterator[None]:
        original = torch.SymBool.__bool__

        def decide(this: torch.SymBool) -> bool:
            taken = original(this)
            frame = sys._getframe(1)
            if not is_torch_file(frame.f_code.co_filename):
                code = frame.f_code
                self.branches.append(
                    Branch(this.node.expr, taken, Source(code.co_filename, frame.f_lineno, code.co_name))
                )
            return taken

        torch.SymBool.__bool__ = decide  # type: ignore[method-assign]  # restored below, on any exit
        try:
            yield
        finally:
            torch.SymBool.__bool__ = original  # type: ignore[method-assign]


class SymbolNames:
    """Names of torch's symbols in the model: what the user asked for, else ``<input>_dim<axis>``."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.origin: dict[str, tuple[str, int]] = {}
        self.notes: list[str] = []

    def rename(self, symbol: sympy.Symbol) -> str:
        return self.names.get(symbol.name, symbol.name)

    def collect(self, inputs: list[tuple[str, Any, dict[int, Any]]]) -> None:
        """``inputs``: name, example value and asked dims of every input tensor, in order."""
        for asked_first in (True, False):
            for name, value, asked in inputs:
                for axis, size in enumerate(value.shape):
                    self._see(name, axis, size, asked.get(axis), asked_first)

    def _see(self, name: str, axis: int, size: Any, asked: Any, only_asked: bool) -> None:
        if not isinstance(size, torch.SymInt) or not isinstance(size.node.expr, sympy.Symbol):
            return
        symbol = size.node.expr.name
        wanted = asked.name if asked is not None else None
        if wanted is None:
            if not only_asked and symbol not in self.names:
                self.names[symbol] = f"{name}_dim{axis}"
        elif symbol not in self.names:
            self.names[symbol] = wanted
        elif self.names[symbol] != wanted and only_asked:
            self.notes.append(
                f"the model makes {wanted} equal to {self.names[symbol]}: both names are kept on the inputs"
            )
        self.origin.setdefault(self.names.get(symbol, symbol), (name, axis))

    def infos(self, ranges: dict[Any, Any]) -> dict[str, SymbolInfo]:
        found = {}
        for symbol, bounds in ranges.items():
            if isinstance(symbol, sympy.Symbol):
                name = self.rename(symbol)
                found[name] = SymbolInfo(
                    name, bound_of(bounds.lower) or 0, bound_of(bounds.upper), self.origin.get(name)
                )
        return found


def bound_of(value: Any) -> int | None:
    """A range's end as an int; None when it is open."""
    if not isinstance(value, (int, sympy.Integer)):
        return None  # torch's and sympy's infinities
    number = int(value)
    return number if abs(number) < 2**62 else None


def check_frozen(request: ShapeRequest, signature: CallSignature, values: dict[int, Any], model_name: str) -> None:
    """Every asked axis must have stayed dynamic.

    Raises:
        CaptureError: the model fixes one; it names the axis, the name asked and the size.
    """
    for leaf, axis, asked in requested_axes(request):
        value = values.get(leaf)
        if not asked.required or value is None or isinstance(value.shape[axis], torch.SymInt):
            continue
        name = asked.name or f"axis {axis}"
        raise CaptureError(
            f"the dim {name} of input {signature.names[leaf]} cannot be dynamic: the model specializes it",
            seen=f"axis {axis} is always {value.shape[axis]} in {model_name}",
            hint=f"leave axis {axis} static, or change the model so that it takes other sizes",
        )


def check_branches(
    recorder: BranchRecorder, request: ShapeRequest, values: dict[int, Any], names: SymbolNames, ranges: dict[Any, Any]
) -> list[str]:
    """Refuse a capture that is right for only a part of the sizes asked for, because a Python branch decided.

    Ranges that an operator itself implies (a table of 32 rows) are returned as notes.

    Raises:
        CaptureError: names the dim, the range left and the user's line.
    """
    notes = []
    decided = {symbol.name: branch for branch in recorder.branches for symbol in _symbols(branch.expression)}
    for leaf, axis, asked in requested_axes(request):
        size = values[leaf].shape[axis] if leaf in values else None
        if not isinstance(size, torch.SymInt) or not isinstance(size.node.expr, sympy.Symbol):
            continue
        symbol = size.node.expr
        name = asked.name or names.rename(symbol)
        if (divisor := _divisor(recorder, symbol)) is not None and asked.required:
            raise _decided(f"{name} {divisor[1]}", divisor[0], name)
        bounds = ranges.get(symbol)
        lower, upper = (bound_of(bounds.lower), bound_of(bounds.upper)) if bounds is not None else (None, None)
        narrowed = []
        if upper is not None and (asked.upper is None or upper < asked.upper):
            narrowed.append(f"{name} <= {upper}")
        if lower is not None and lower > max(2, asked.lower or 0):
            narrowed.append(f"{name} >= {lower}")
        if not narrowed:
            continue
        branch = _narrowing_branch(recorder, symbol) if symbol.name in decided else None
        if branch is not None and asked.required and _near(size.node.hint, lower, upper):
            raise _decided(" and ".join(narrowed), branch, name)
        refusal = next((one for one in recorder.branches if symbol in _symbols(one.expression) and one.refuses), None)
        why = "an operator has no more room"
        if refusal is not None:
            why = f"it raises an error otherwise ({refusal.source.location})"
        elif branch is not None:
            why = f"beyond that a Python branch is decided otherwise ({branch.source.location})"
        notes.append(f"the model holds for {' and '.join(narrowed)}: {why}")
    return list(dict.fromkeys(notes))


def _near(example: Any, lower: int | None, upper: int | None) -> bool:
    """Whether a limit is within eight times the example's size: a user is likely to come across it."""
    if not isinstance(example, int):
        return True
    return (upper is not None and upper < 8 * example) or (lower is not None and lower > max(2, example / 8))


def _decided(condition: str, branch: Branch, name: str) -> CaptureError:
    return CaptureError(
        f"the captured model is only right for {condition}: a Python branch was decided by the example's size",
        source=branch.source,
        seen=f"{branch.expression} was {branch.taken} for the example",
        hint=(
            "use torch.cond for the branch, or ask for the range that you need: "
            f"torch.export.Dim({name!r}, min=..., max=...)"
        ),
    )


def _symbols(expression: Any) -> set[sympy.Symbol]:
    return getattr(expression, "free_symbols", set())


def _narrowing_branch(recorder: BranchRecorder, symbol: sympy.Symbol) -> Branch | None:
    """The decision that bounds a symbol: an inequality with a number, other than against 0 and 1."""
    for branch in recorder.branches:
        expression = branch.expression
        if branch.refuses:
            continue
        if symbol in _symbols(expression) and isinstance(expression, sympy.core.relational.Relational):
            numbers = [abs(number) for number in expression.atoms(sympy.Integer)]
            if any(number > 1 for number in numbers) and len(_symbols(expression)) == 1:
                return branch
    return None


def _divisor(recorder: BranchRecorder, symbol: sympy.Symbol) -> tuple[Branch, str] | None:
    """A decision on divisibility (``x.shape[0] % 2 == 0``) that other sizes would take differently."""
    for branch in recorder.branches:
        expression = branch.expression
        if branch.refuses:
            continue
        if symbol in _symbols(expression) and has_remainder(expression):
            text = str(expression) if branch.taken else f"not ({expression})"
            return branch, f"where {text.replace(symbol.name, 'it')}"
    return None


def has_remainder(expression: Any) -> bool:
    """Whether an expression takes the remainder of a division."""
    return any("Mod" in type(node).__name__ for node in sympy.preorder_traversal(expression))


def check_small(program: Any, result: Any) -> None:
    """With an example whose dynamic axis has size 0 or 1, what was captured must still hold for the example itself.

    ``squeeze()`` or ``split`` do something of their own at these sizes, which one graph cannot say.

    Args:
        program: the ExportedProgram.
        result: what the model returns eagerly for the example.

    Raises:
        CaptureError: an output has another shape than in eager PyTorch.
    """
    [output] = [node for node in program.graph.nodes if node.op == "output"]
    captured = [
        node
        for node, spec in zip(output.args[0], program.graph_signature.output_specs, strict=True)
        if spec.kind is OutputKind.USER_OUTPUT
    ]
    for index, (node, value) in enumerate(zip(captured, pytree.tree_leaves(result), strict=False)):
        fake = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
        if not isinstance(fake, torch.Tensor) or not isinstance(value, torch.Tensor):
            continue
        sizes: list[Any] = list(fake.shape)
        hints = [size.node.hint if isinstance(size, torch.SymInt) else size for size in sizes]
        if None not in hints and hints != list(value.shape):
            raise CaptureError(
                "the captured model is not right for the example's own size: a dynamic axis of size 1 is special to it",
                seen=f"output {index} has shape {list(value.shape)}, the captured one {hints}",
                hint="give an example with at least 2 along the dynamic axes, or name the dim: squeeze(dim)",
            )
