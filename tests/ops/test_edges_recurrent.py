"""Recurrent layers: directions, layers, biases, states, projections, dynamic batch and time."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

from onnx_lab.errors import UnsupportedCaseError
from tests.ops.harness import check

BATCH_AND_TIME = ({0: Dim.DYNAMIC, 1: Dim.DYNAMIC},)
KINDS = [nn.LSTM, nn.GRU, nn.RNN]


def wide(module: nn.Module) -> nn.Module:
    """Weights large enough that every gate matters."""
    for parameter in module.parameters():
        nn.init.uniform_(parameter, -1, 1)
    return module.eval()


def operators(result: Any) -> list[str]:
    return [node.op_type for node in result.model.graph]


@pytest.mark.parametrize("options", [{}, {"bias": False}, {"batch_first": True}], ids=str)
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_layers(kind: type[nn.RNNBase], layers: int, bidirectional: bool, options: dict[str, Any]) -> None:
    module = wide(kind(3, 5, num_layers=layers, bidirectional=bidirectional, **options))
    again = [(torch.randn(4, 3, 3),), (torch.randn(1, 11, 3),), (torch.randn(6, 1, 3),)]
    result = check(module, torch.randn(2, 7, 3), dynamic=BATCH_AND_TIME, again=again)
    assert operators(result).count(kind.__name__) == layers


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN:UserWarning")
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
def test_projection(layers: int, bidirectional: bool) -> None:
    module = wide(nn.LSTM(3, 5, proj_size=2, num_layers=layers, bidirectional=bidirectional, batch_first=True))
    check(module, torch.randn(2, 7, 3), dynamic=BATCH_AND_TIME, again=[(torch.randn(4, 3, 3),)])
    directions = 2 if bidirectional else 1
    states = torch.randn(layers * directions, 2, 2), torch.randn(layers * directions, 2, 5)
    check(module, torch.randn(2, 7, 3), states)


@pytest.mark.parametrize("kind", KINDS)
def test_start_states(kind: type[nn.RNNBase]) -> None:
    def state() -> torch.Tensor:
        return torch.randn(4, 2, 5)

    check(wide(kind(3, 5, 2, bidirectional=True)), torch.randn(7, 2, 3),
          (state(), state()) if kind is nn.LSTM else state())  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_unbatched_and_half(kind: type[nn.RNNBase]) -> None:
    check(wide(kind(3, 5, 2)), torch.randn(7, 3))
    check(wide(kind(3, 5, 2, bidirectional=True)).half(), torch.randn(7, 2, 3).half(), rtol=1e-2, atol=1e-2)


def test_relu() -> None:
    check(wide(nn.RNN(3, 5, 2, nonlinearity="relu", bidirectional=True)), torch.randn(7, 2, 3))


def test_weights_are_the_modules_own() -> None:
    """Every parameter is an initializer under its own name: nothing is rearranged in Python."""
    module = wide(nn.LSTM(3, 5, bidirectional=True))
    result = check(module, torch.randn(7, 2, 3))
    assert {name for name, _ in module.named_parameters()} <= set(result.model.graph.initializers)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    "kind", [nn.LSTMCell, nn.GRUCell, nn.RNNCell, lambda *a, **k: nn.RNNCell(*a, nonlinearity="relu", **k)]
)
def test_cells(kind: Any, bias: bool) -> None:
    cell = wide(kind(3, 5, bias=bias))
    check(cell, torch.randn(2, 3))
    check(cell, torch.randn(3))
    hidden = torch.randn(2, 5)
    check(cell, torch.randn(2, 3), (hidden, hidden + 1) if kind is nn.LSTMCell else hidden)


def test_dropout_between_layers_is_refused_in_training() -> None:
    import onnx_lab

    module = nn.LSTM(3, 5, 2, dropout=0.5)
    with pytest.raises(UnsupportedCaseError, match=r"dropout=0\.5"):
        onnx_lab.export(module, (torch.randn(7, 2, 3),), training="preserve")
    check(module.eval(), torch.randn(7, 2, 3))
