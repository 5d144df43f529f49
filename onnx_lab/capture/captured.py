"""What a front end makes: the captured graph, and how to run the model eagerly for comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from onnx_lab.capture.kept import state_kept
from onnx_lab.capture.modes import training_mode
from onnx_lab.capture.signature import CallSignature
from onnx_lab.capture.state import State
from onnx_lab.program.graph import CapturedGraph


@dataclass(slots=True)
class Capture:
    """A captured program.

    Attributes:
        graph: its calls; writes are still in it until it is functionalized.
        exported_program: torch's own form of it.
        signature: how calls become inputs and outputs.
        model: what the user gave.
        training: the mode that it was captured in.
        state: what of the model are inputs and outputs, None when its state is frozen.
    """

    graph: CapturedGraph
    exported_program: Any
    signature: CallSignature
    model: Any
    training: str = "preserve"
    state: State | None = None

    @property
    def output_names(self) -> list[str]:
        """Names of the model's outputs, those of its state last."""
        return [*self.signature.output_names, *(self.state.outputs if self.state is not None else ())]

    def feeds(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The exported model's inputs by name, for these arguments and the state that the model has now.

        Raises:
            InputError: the arguments do not have the structure of the example's.
        """
        given = self.signature.flatten_inputs(args, kwargs)
        return given if self.state is None else given | self.state.feeds(self.model)

    def run_eager(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """One eager call in the mode of the export, without traces: state and inputs are as before."""
        return self._run(args, kwargs)[0]

    def run_outputs(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """What the exported model should give for these arguments, by eager PyTorch: see ``output_names``."""
        result, state = self._run(args, kwargs)
        return [*self.signature.flatten_outputs(result), *state]

    def _run(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, list[torch.Tensor]]:
        """The result of one eager call and the state after it."""
        args, kwargs = copied((tuple(args), dict(kwargs)))
        with self._surroundings(), torch.no_grad():
            # What it returns may be its own state, which is put back on leaving.
            result = copied(self.model(*args, **kwargs))
            return result, [] if self.state is None else self.state.read(self.model)

    @contextmanager
    def _surroundings(self) -> Iterator[None]:
        """The mode of the export; the model is afterwards as it was."""
        with training_mode(self.model, self.training), state_kept(self.model):
            yield


def copied(value: Any) -> Any:
    """The same nested value with every tensor cloned."""
    return pytree.tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, value)
