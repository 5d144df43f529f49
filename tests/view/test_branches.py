"""Branches in a drawing: their bodies are joined to the If that they belong to."""

from __future__ import annotations

import torch

import onnx_lab
from onnx_lab.view.box_graph import of_model


class Choice(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.relu(), lambda x: x.neg().exp(), (x,))


def test_results_of_branches_go_into_their_if() -> None:
    graph = of_model(onnx_lab.export(Choice(), (torch.ones(3),)).model)
    [chosen] = [key for key, box in graph.boxes.items() if box.title == "If"]
    given = {graph.boxes[source].title for source, target, _ in graph.edges if target == chosen}
    assert {"Relu", "Exp"} <= given
    assert "Neg" not in given
