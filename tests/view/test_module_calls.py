"""Modules that run several times are drawn once per run, so that no arrow goes back."""

from __future__ import annotations

import torch

import onnx_lab
from onnx_lab.view.box_graph import Box, of_captured, of_model
from onnx_lab.view.module_calls import separate_runs


def paths_of(*plain):
    boxes = [Box(f"{number}", "Op", "op", tuple(path.split(".")) if path else ()) for number, path in enumerate(plain)]
    separate_runs(boxes, {})
    return [".".join(box.path) for box in boxes]


def test_one_run_keeps_its_path():
    assert paths_of("a", "a", "b.c", "b.c", "b", "") == ["a", "a", "b.c", "b.c", "b", ""]


def test_a_further_run_gets_a_path_of_its_own():
    assert paths_of("act", "b", "act", "act", "b") == ["act", "b", "act (run 2)", "act (run 2)", "b (run 2)"]


def test_runs_inside_a_further_run_count_anew():
    assert paths_of("a.x", "a.y", "a.x", "b", "a.x") == ["a.x", "a.y", "a.x (run 2)", "b", "a (run 2).x"]


def test_the_parent_going_on_is_no_further_run_of_it():
    assert paths_of("a.x", "a", "a.y") == ["a.x", "a", "a.y"]


class Shared(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.act = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4), torch.nn.ReLU()

    def forward(self, x):
        return self.act(self.second(self.act(self.first(x))))


def test_a_shared_activation_of_a_model():
    result = onnx_lab.export(Shared(), (torch.ones(2, 4),))
    for graph in (of_captured(result.captured), of_model(result.model)):
        runs = [path for box in graph.boxes.values() if (path := box.path) and path[0].startswith("act")]
        assert runs == [("act",), ("act (run 2)",)]
        assert graph.classes["act (run 2)",] == "ReLU"
