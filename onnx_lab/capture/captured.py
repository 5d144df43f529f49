"""What a front end makes: the captured graph, and how to run the model eagerly for comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnx_lab.capture.kept import state_kept
from onnx_lab.capture.modes import training_mode
from onnx_lab.capture.signature import CallSignature
from onnx_lab.program.graph import CapturedGraph


@dataclass(slots=True)
class Capture:
    """A captured program.

    Attributes:
        graph: its calls; writes are still in it until it is functionalized.
        exported_program: torch's own form of it.
        signature: how calls become inputs and outputs.
        model: what the user gave.
    """

    graph: CapturedGraph
    exported_program: Any
    signature: CallSignature
    model: Any
    training: str = "preserve"

    def run_eager(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """One eager call in the mode of the export, without traces: state and inputs are as before."""
        args, kwargs = copied((tuple(args), dict(kwargs)))
        with training_mode(self.model, self.training), state_kept(self.model), torch.no_grad():
            # What it returns may be its own state, which is put back on leaving.
            return copied(self.model(*args, **kwargs))


def copied(value: Any) -> Any:
    """The same nested value with every tensor cloned."""
    return pytree.tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, value)
