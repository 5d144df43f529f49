"""as_strided: windows, transposed memory, writes through it, and what is refused."""

from __future__ import annotations

import pytest
import torch

import onnx_lab
from tests.ops.harness import Function, check


def test_windows_and_offsets() -> None:
    check(lambda x: torch.as_strided(x, (3, 4), (2, 1), 1), torch.randn(10))
    check(lambda x: (x + 0).t().as_strided((2, 3), (3, 1)), torch.randn(3, 2))
    check(lambda x: x.as_strided((), ()), torch.randn(3))
    check(lambda x: x.as_strided((0, 2), (1, 1)), torch.randn(3))


def test_a_write_through_it() -> None:
    def write(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y.as_strided((2, 2), (5, 1), 1).mul_(10)
        return y

    check(write, torch.randn(3, 4))


def test_overlapping_writes_and_foreign_memory_are_refused() -> None:
    def overlapping(x: torch.Tensor) -> torch.Tensor:
        return torch.as_strided_scatter(x, torch.ones(2, 2), (2, 2), (1, 1), 0)

    def foreign(x: torch.Tensor) -> torch.Tensor:
        return x[1:].as_strided((3,), (1,), 0)

    for function, text in ((overlapping, "several elements"), (foreign, "outside of the tensor")):
        with pytest.raises(onnx_lab.UnsupportedCaseError) as caught:
            onnx_lab.export(Function(function), (torch.randn(6),))
        assert text in str(caught.value)
