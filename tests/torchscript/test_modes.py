"""Train and eval: the table of submodules that differ from the mode asked for, and what the graph does."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

import onnx_lab

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.*deprecated:DeprecationWarning")
CAPTURES = ("export", "dynamo", "script", "trace")


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.5)
        self.norm = nn.BatchNorm1d(4)
        self.batch = nn.BatchNorm1d(4, track_running_stats=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.dropout(self.batch(self.norm(self.drop(x))), 0.1, True)


@pytest.fixture
def model() -> Mixed:
    made = Mixed()
    made.norm.eval()
    return made


def rows(result: onnx_lab.ExportResult) -> dict[str, tuple[str, str]]:
    frame = result.modes().set_index("module")
    return {str(path): (str(row["flag"]), str(row["effective"])) for path, row in frame.iterrows()}


@pytest.mark.parametrize("capture", CAPTURES)
def test_eval(model: Mixed, capture: str) -> None:
    result = onnx_lab.export(model, (torch.randn(3, 4),), training="eval", capture=capture)
    # The root drops whatever the mode is, and "batch" has no statistics to use in evaluation.
    assert rows(result) == {"(root)": ("train", "train"), "drop": ("train", "eval"), "batch": ("train", "train")}
    assert model.training
    assert not model.norm.training


@pytest.mark.parametrize("capture", CAPTURES)
def test_train(model: Mixed, capture: str) -> None:
    result = onnx_lab.export(model, (torch.randn(3, 4),), training="train", capture=capture)
    assert rows(result) == {"norm": ("eval", "train")}
    assert {"aten::dropout", "aten::batch_norm"} <= set(result.ops()["op"])


@pytest.mark.parametrize("capture", CAPTURES)
def test_preserve(model: Mixed, capture: str) -> None:
    result = onnx_lab.export(model, (torch.randn(3, 4),), training="preserve", capture=capture)
    assert rows(result) == {"norm": ("eval", "eval")}


def test_a_scripted_module_follows_the_mode(model: Mixed) -> None:
    script = torch.jit.script(nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5)))
    result = onnx_lab.export(script, (torch.randn(3, 4),), training="eval")
    assert result.verify().ok
    assert set(rows(result)) == {"(root)", "0", "1"}
    assert script.training
    trained = onnx_lab.export(script, (torch.randn(3, 4),), training="train")
    assert trained.modes().empty


def test_all_in_order_is_an_empty_table() -> None:
    result = onnx_lab.export(nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.5)).eval(), (torch.randn(3, 4),))
    assert result.modes().empty
    assert list(result.modes().columns) == ["module", "type", "asked", "flag", "effective", "why", "source"]
