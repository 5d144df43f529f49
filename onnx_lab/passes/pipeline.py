"""The passes of an export, in order."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from onnx_lab.errors import PassError
from onnx_lab.passes.dead_code import remove_dead_code
from onnx_lab.passes.invariants import check_invariants

PIPELINE: tuple[tuple[str, Callable[[ir.Model], int]], ...] = (("remove_dead_code", remove_dead_code),)


def run(model: ir.Model, *, check: bool = False) -> dict[str, int]:
    """Run every pass; returns how many changes each made.

    With ``check`` the graph's invariants are tested after each pass (tests do; it costs a walk).

    Raises:
        PassError: a pass broke an invariant.
    """
    changes = {}
    for name, function in PIPELINE:
        changes[name] = function(model)
        if check and (broken := check_invariants(model)):
            raise PassError(f"the pass {name} broke the graph: {broken[0]}", seen="; ".join(broken[:5]))
    return changes
