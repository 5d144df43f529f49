"""State as inputs and outputs: what forward writes on the model comes in, and goes out after the call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from onnx_lab.errors import CaptureError
from onnx_lab.program.graph import CapturedGraph, GraphInput, GraphOutput


@dataclass(slots=True)
class State:
    """The state of a model at the border of the exported one.

    Attributes:
        targets: dotted names of the attributes.
        inputs: input names, the outputs' in the same order.
        outputs: output names.
        read: takes the model, gives what its state holds now, a tensor for each input.
        initial: what it held at the export, by input name.
    """

    targets: list[str]
    inputs: list[str]
    outputs: list[str]
    read: Callable[[Any], list[torch.Tensor]]
    initial: dict[str, torch.Tensor]

    def feeds(self, model: Any) -> dict[str, torch.Tensor]:
        """What the state holds now, by input name."""
        return dict(zip(self.inputs, self.read(model), strict=True))


def expose_state(graph: CapturedGraph) -> State:
    """Make an input and an output of every buffer and parameter that forward writes; after functionalization.

    Raises:
        CaptureError: the state is not one tensor of the model.
    """
    by_target = {weight.target: weight for weight in graph.weights.values()}
    taken = {given.name for given in graph.inputs} | {one.name for one in graph.outputs} | set(graph.weights)
    targets, inputs, outputs, initial = [], [], [], {}
    for one in graph.state_writes:
        weight = by_target.get(one.target)
        if weight is None:
            raise CaptureError(
                f"forward writes {one.target}, which is no buffer of the model: this capture takes it for a constant",
                hint="register it as a buffer (self.register_buffer(name, tensor)), or use capture='script'",
            )
        graph.inputs.append(GraphInput(weight.name, weight.spec, state=True))
        del graph.weights[weight.name]
        targets.append(one.target)
        inputs.append(weight.name)
        outputs.append(free_name(f"{weight.name}_out", taken))
        initial[weight.name] = weight.tensor.detach().clone()
        # A value that goes out under two names, or that is an input, is handed on by the lowering.
        graph.outputs.append(GraphOutput(outputs[-1], one.value))

    def read(of: Any) -> list[torch.Tensor]:
        return [tensor_at(of, target).detach().clone() for target in targets]

    return State(targets, inputs, outputs, read, initial)


def free_name(wanted: str, taken: set[str]) -> str:
    """``wanted``, or with a number when it is taken; it is taken from now on."""
    name, number = wanted, 1
    while name in taken:
        name, number = f"{wanted}_{number}", number + 1
    taken.add(name)
    return name


def tensor_at(model: Any, target: str) -> torch.Tensor:
    """The tensor at a dotted name of a module."""
    value: Any = model
    for part in target.split("."):
        value = getattr(value, part)
    assert isinstance(value, torch.Tensor)
    return value
