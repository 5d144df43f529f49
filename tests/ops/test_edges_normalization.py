"""Normalizations: whose statistics, which axes, mixed precision, empty batches."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from tests.ops.harness import check

OPSETS = (18, 23, 28)
HALF = {"rtol": 1e-2, "atol": 1e-2}
BATCH = ({0: Dim.DYNAMIC},)


def touched(module: nn.Module) -> nn.Module:
    """Parameters and running statistics that change numbers."""
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        if tensor.is_floating_point():
            tensor.data.uniform_(0.5, 2) if "var" in name else tensor.data.normal_()
    return module.eval()


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (nn.LayerNorm(8), (2, 3, 8)),
        (nn.LayerNorm(8, bias=False), (2, 8)),
        (nn.LayerNorm((3, 8), elementwise_affine=False), (2, 3, 8)),
        (nn.GroupNorm(2, 6, eps=1e-3), (2, 6, 5, 4)),
        (nn.GroupNorm(3, 6, affine=False), (2, 6)),
        (nn.InstanceNorm1d(3), (2, 3, 4)),
        (nn.InstanceNorm2d(3, affine=True), (2, 3, 4, 5)),
        (nn.InstanceNorm2d(3, affine=True, track_running_stats=True), (2, 3, 4, 5)),
        (nn.InstanceNorm3d(3), (2, 3, 4, 2, 2)),
        (nn.BatchNorm1d(3), (4, 3)),
        (nn.BatchNorm1d(3, affine=False), (4, 3, 5)),
        (nn.BatchNorm2d(3), (4, 3, 5, 2)),
        (nn.BatchNorm3d(3), (4, 3, 2, 2, 2)),
        (nn.BatchNorm1d(3, track_running_stats=False), (4, 3)),
        (nn.BatchNorm2d(3, track_running_stats=False, affine=False), (4, 3, 5, 2)),
        (nn.RMSNorm(8), (2, 3, 8)),
        (nn.RMSNorm((3, 8), eps=0.1), (2, 3, 8)),
    ],
    ids=repr,
)
class TestModules:
    @pytest.mark.parametrize("opset", OPSETS)
    def test_values_with_a_dynamic_batch(self, module: nn.Module, shape: tuple[int, ...], opset: int) -> None:
        touched(module.float())
        more = torch.randn(6, *shape[1:]) * 2 - 4
        check(module, torch.randn(shape) * 3 + 1, dynamic=BATCH, again=[(more,)], opset=opset)

    def test_float16(self, module: nn.Module, shape: tuple[int, ...]) -> None:
        check(touched(module.half()), torch.randn(shape).half(), **HALF)

    def test_float64(self, module: nn.Module, shape: tuple[int, ...]) -> None:
        exact = "InstanceNorm" not in repr(module) or "track_running_stats=True" in repr(module)
        check(touched(module.double()), torch.randn(shape).double(), **({"rtol": 1e-6} if exact else {}))


@pytest.mark.parametrize(
    "module", [nn.LayerNorm(6), nn.RMSNorm(6), nn.GroupNorm(2, 6), nn.BatchNorm1d(6), nn.BatchNorm2d(6)], ids=repr
)
def test_half_input_with_float_parameters(module: nn.Module) -> None:
    check(touched(module.float()), torch.randn(4, 6, 6, 6)[(..., 0) if "1d" in repr(module) else ...].half(), **HALF)


@pytest.mark.parametrize("module", [nn.LayerNorm(6), nn.RMSNorm(6), nn.BatchNorm1d(6), nn.GroupNorm(3, 6)], ids=repr)
def test_an_empty_batch(module: nn.Module) -> None:
    check(touched(module), torch.randn(2, 6), dynamic=BATCH, again=[(torch.randn(0, 6),)])


@pytest.mark.parametrize("opset", OPSETS)
def test_rms_norm_without_eps_uses_that_of_float(opset: int) -> None:
    def norm(x: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, (8,))

    check(norm, torch.randn(2, 8) * 1e-4, opset=opset)
    check(norm, torch.randn(2, 8).half() * 1e-2, opset=opset, **HALF)
    check(norm, torch.randn(2, 8).double() * 1e-8, opset=opset, rtol=1e-6)


def test_batch_norm_in_training_ignores_running_statistics() -> None:
    def norm(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten._native_batch_norm_legit_functional(
            x, None, None, torch.ones(3), torch.ones(3) * 2, True, 0.1, 1e-3
        )

    def outputs(x: torch.Tensor) -> Any:
        made = norm(x)
        return made[0], made[3], made[4]

    check(outputs, torch.randn(4, 3, 5))
    check(lambda x: F.batch_norm(x, None, None, training=True), torch.randn(4, 3, 5) + 7)


@pytest.mark.parametrize("name", ["native_layer_norm", "native_group_norm", "_native_batch_norm_legit_no_training"])
def test_what_decompositions_call(name: str) -> None:
    rest: dict[str, tuple[Any, ...]] = {
        "native_layer_norm": ([5], None, None, 1e-3),
        "native_group_norm": (None, None, 2, 6, 5, 3, 1e-3),
        "_native_batch_norm_legit_no_training": (None, None, torch.ones(6), torch.ones(6) * 2, 0.1, 1e-3),
    }
    function = getattr(torch.ops.aten, name)
    check(lambda x: function(x, *rest[name])[0], torch.randn(2, 6, 5))
    if name != "_native_batch_norm_legit_no_training":
        check(lambda x: function(x, *rest[name]), torch.randn(2, 6, 5))


def test_weight_norm() -> None:
    check(nn.utils.parametrizations.weight_norm(nn.Linear(3, 4)), torch.randn(2, 3))
    check(nn.utils.parametrizations.weight_norm(nn.Conv1d(3, 4, 2), dim=1), torch.randn(2, 3, 5))


def test_layer_norm_is_one_node() -> None:
    result = check(nn.LayerNorm(8), torch.randn(2, 8))
    assert [node.op_type for node in result.model.graph] == ["LayerNormalization"]
    result = check(nn.RMSNorm(8), torch.randn(2, 8))
    assert [node.op_type for node in result.model.graph] == ["RMSNormalization"]


@pytest.mark.parametrize("shape", [(2, 5, 4), (2, 5, 4, 4), (2, 5, 4, 3, 2)], ids=str)
def test_local_response_norm(shape: tuple[int, ...]) -> None:
    check(nn.LocalResponseNorm(3), torch.randn(shape))
