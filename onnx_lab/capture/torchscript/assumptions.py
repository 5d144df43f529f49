"""What torch assumes of sizes while operators run on shapes, and where that must not hold.

``x + y`` makes torch assume that the sizes of x and y are equal. That is so wherever the operator is executed; on
another path of the program it need not be. And a size that may be 1 is not equal to the other: it is broadcast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree

from onnx_lab.errors import CaptureError
from onnx_lab.program.source import Source


@contextmanager
def forgotten_after(environment: ShapeEnv) -> Iterator[None]:
    """What is assumed inside is forgotten on leaving."""
    kept = _Kept(environment)
    try:
        yield
    finally:
        kept.restore()


class _Kept:
    def __init__(self, environment: ShapeEnv) -> None:
        self._environment = environment
        self.replacements = dict(environment.replacements)
        self._ranges = dict(environment.var_to_range)
        self._axioms = dict(environment.axioms)
        self._divisible = set(environment.divisible)
        self._guards = len(environment.guards)
        self.asserts = {key: list(value) for key, value in environment.deferred_runtime_asserts.items()}

    def restore(self) -> None:
        environment = self._environment
        if self._is_same():
            return
        for table, kept in ((environment.replacements, self.replacements), (environment.axioms, self._axioms)):
            table.clear()
            table.update(kept)
        # Ranges of what was made inside stay known.
        environment.var_to_range.update(self._ranges)
        environment.divisible.clear()
        environment.divisible.update(self._divisible)
        environment.deferred_runtime_asserts.clear()
        environment.deferred_runtime_asserts.update(self.asserts)
        del environment.guards[self._guards :]
        # Its caches are only good for one version of what is assumed.
        environment._replacements_version_counter += 1
        environment._version_counter += 1

    def _is_same(self) -> bool:
        environment = self._environment
        return (
            len(environment.guards) == self._guards
            and environment.replacements == self.replacements
            and environment.deferred_runtime_asserts == self.asserts
            and all(environment.var_to_range.get(key) == value for key, value in self._ranges.items())
        )


@dataclass(slots=True)
class Broadcasting:
    """Operators on sizes that may be 1, which are not taken to be the sizes that they are combined with.

    Torch takes u and n to be equal in ``x[u] + y[n]``; with u in {1, n} the result has n rows all the same.

    Attributes:
        environment: torch's knowledge of sizes.
        possibly_one: symbols of sizes that may be 1.
        fake: makes a tensor of a dtype and shape.
        fresh: makes a size that only the run tells.
    """

    environment: ShapeEnv
    fake: Callable[[torch.dtype, list[Any]], torch.Tensor]
    fresh: Callable[[], torch.SymInt]
    possibly_one: set[Any] = field(default_factory=set)

    def run(self, operator: Callable[[], Any], source: Source) -> Any:
        """The result of an operator.

        Raises:
            CaptureError: what torch assumes of such a size is more than equality.
        """
        if not self.possibly_one:
            return operator()
        kept = _Kept(self.environment)
        result = operator()
        equal = dict(_new_equalities(self.environment, kept, self.possibly_one, source))
        if not equal:
            return result
        leaves, tree = pytree.tree_flatten(result)
        shapes = [self._shape(leaf, equal) for leaf in leaves]
        kept.restore()
        made = [
            leaf if shape is None else self.fake(leaf.dtype, shape) for leaf, shape in zip(leaves, shapes, strict=True)
        ]
        return pytree.tree_unflatten(made, tree)

    def _shape(self, leaf: Any, equal: dict[Any, Any]) -> list[Any] | None:
        """The shape of a result; None where it is what torch took it to be."""
        if not isinstance(leaf, torch.Tensor):
            return None
        shape = [self._size(size, equal) for size in leaf.shape]
        same = all(one is other for one, other in zip(shape, leaf.shape, strict=True))
        return None if same else shape

    def _size(self, size: Any, equal: dict[Any, Any]) -> Any:
        expression = None if isinstance(size, int) else size.node._expr
        if expression in equal:
            other = equal[expression]
            if other in self.possibly_one:
                return self.fresh()
            return int(other) if other.is_Integer else self.environment.create_symintnode(other, hint=None)
        return self.fresh() if expression in self.possibly_one and expression in equal.values() else size


def _new_equalities(
    environment: ShapeEnv, kept: _Kept, possibly_one: set[Any], source: Source
) -> Iterator[tuple[Any, Any]]:
    """Pairs of a symbol that may be 1 and what torch has taken it to be equal to."""
    new = [
        sympy.Eq(symbol, expression, evaluate=False)
        for symbol, expression in environment.replacements.items()
        if kept.replacements.get(symbol) != expression
    ]
    for key, checks in environment.deferred_runtime_asserts.items():
        known = len(kept.asserts.get(key, ()))
        new += [check.expr for check in checks[known:] if isinstance(check.expr, sympy.Eq)]
    for equation in new:
        one, other = equation.args
        if not possibly_one & equation.free_symbols or 1 in equation.args:
            continue
        if one not in possibly_one:
            one, other = other, one
        if one not in possibly_one:
            raise CaptureError(
                "an axis that is of size 1 on one path and of another size on another path is combined with others",
                source=source,
                seen=f"{equation.args[0]} and {equation.args[1]} would have to be equal",
                hint="give the variable its final shape before the loop or branch: h = torch.zeros(x.shape)",
            )
        yield one, other
