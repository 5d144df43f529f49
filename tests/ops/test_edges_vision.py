"""Sampling on grids and patches as columns."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import onnxruntime as ort
import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

from onnx_lab.errors import UnsupportedCaseError
from onnx_lab.lower.lowerer import Lowerer
from onnx_lab.program.graph import Call, CapturedGraph, GraphInput, GraphOutput, Ref
from onnx_lab.program.op_key import OpKey
from onnx_lab.program.spec import ScalarSpec, SymDim, TensorSpec
from tests.ops.harness import check


@pytest.mark.parametrize("opset", [18, 20, 23, 28])
@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample(mode: str, padding: str, corners: bool, opset: int) -> None:
    def sample(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        return F.grid_sample(x, grid, mode, padding, corners)

    batch = {"dynamic": ({0: Dim.DYNAMIC}, {0: Dim.DYNAMIC}), "opset": opset}

    def args(n: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(n, 3, 6, 5), torch.rand(n, 4, 7, 2) * 3 - 1.5

    check(sample, *args(2), again=[args(3), args(0)], **batch)
    if mode != "bicubic" and opset >= 20:
        check(sample, torch.randn(2, 3, 6, 5, 4), torch.rand(2, 4, 7, 2, 3) * 3 - 1.5, opset=opset)


def test_volumes_need_opset_20() -> None:
    with pytest.raises(UnsupportedCaseError, match="volume"):
        check(lambda x, grid: F.grid_sample(x, grid, align_corners=True), torch.randn(1, 1, 2, 2, 2),
              torch.rand(1, 2, 2, 2, 3), opset=19)  # fmt: skip


@pytest.mark.filterwarnings("ignore:Since version 1.3.0:UserWarning")  # one-element axes are meant
@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("size", [(2, 3, 4, 5), (2, 3, 1, 5), (2, 1, 1, 1), (2, 3, 4, 5, 6)], ids=str)
def test_affine_grid(size: tuple[int, ...], corners: bool) -> None:
    spatial = len(size) - 2
    theta = torch.randn(2, spatial, spatial + 1)
    check(lambda theta: F.affine_grid(theta, list(size), corners), theta)

    # torch.export fixes these sizes, other front ends do not: the call is written down here.
    names = [f"size_{axis}" for axis in range(len(size))]
    axes = [Call(name, OpKey("aten::sym_size.int"), (Ref("x"), axis), {}, ScalarSpec("int", name))
            for axis, name in enumerate(names)]  # fmt: skip
    shape = tuple(map(SymDim, (*names[:1], *names[2:])))
    call = Call("grid", OpKey("aten::affine_grid_generator"), (Ref("theta"), [Ref(one) for one in names], corners), {},
                TensorSpec("float32", (*shape, spatial)))  # fmt: skip
    inputs = [GraphInput("x", TensorSpec("float32", tuple(map(SymDim, names)))),
              GraphInput("theta", TensorSpec("float32", tuple(theta.shape)))]  # fmt: skip
    graph = CapturedGraph("", inputs, [GraphOutput("out", Ref("grid"))], {}, [*axes, call])
    model, _ = Lowerer(graph, 23).run()
    session = ort.InferenceSession(ir.to_proto(model).SerializeToString(), providers=["CPUExecutionProvider"])
    made = session.run(None, {"x": torch.empty(size).numpy(), "theta": theta.numpy()})[0]
    torch.testing.assert_close(torch.from_numpy(made), F.affine_grid(theta, list(size), corners))


@pytest.mark.parametrize("shape", [(2, 3, 6, 7), (3, 6, 7)], ids=str)
@pytest.mark.parametrize("options", [(2,), ((2, 3), (1, 2), (1, 2), (2, 1)), (3, 1, 1, 2)], ids=str)
def test_unfold_and_fold(options: tuple[Any, ...], shape: tuple[int, ...]) -> None:
    check(lambda x: F.unfold(x, *options), torch.randn(shape))
    check(lambda x: F.fold(x, (6, 7), *options), F.unfold(torch.randn(shape), *options))
    if len(shape) == 4:
        size = ({0: Dim.DYNAMIC, 2: Dim.DYNAMIC, 3: Dim.DYNAMIC},)
        check(lambda x: F.unfold(x, *options), torch.randn(shape), dynamic=size,
              again=[(torch.randn(1, 3, 9, 8),), (torch.randn(4, 3, 10, 11),)])  # fmt: skip


def test_channel_shuffle() -> None:
    check(lambda x: F.native_channel_shuffle(x, 2), torch.randn(1, 8, 3))


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")], ids=str)
def test_grid_sample_at_no_place(value: float, mode: str, padding: str, corners: bool) -> None:
    grid = torch.rand(1, 9, 8, 2)  # torch takes eight points at a time
    grid[0, 0, 0, 0] = grid[0, 1, 1, 1] = value
    check(lambda x, grid: F.grid_sample(x, grid, mode, padding, corners), torch.randn(1, 2, 5, 5), grid)
