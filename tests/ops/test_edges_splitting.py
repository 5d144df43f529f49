"""Pieces of a dynamic axis: their number is fixed, their sizes are those of the run."""

from __future__ import annotations

import torch
from torch.export import Dim

from tests.ops.harness import check


def test_sections_of_a_dynamic_axis() -> None:
    rows, columns = {0: Dim.DYNAMIC}, {1: Dim.DYNAMIC}
    again = [(torch.randn(3, width),) for width in (6, 7, 8, 3, 2)]
    check(lambda x: x.tensor_split(3, 1), torch.randn(3, 4), again=again, dynamic=(columns,))
    again = [(torch.randn(height, 4),) for height in (6, 7, 3)]
    check(lambda x: x.tensor_split(2), torch.randn(4, 4), again=again, dynamic=(rows,))


def test_sections_that_must_divide() -> None:
    rows, columns = {0: Dim.DYNAMIC}, {1: Dim.DYNAMIC}
    check(lambda x: x.hsplit(2), torch.randn(3, 4), again=[(torch.randn(3, 8),)], dynamic=(columns,))
    check(lambda x: x.vsplit(2), torch.randn(4, 4), again=[(torch.randn(8, 4),)], dynamic=(rows,))
    check(lambda x: (*x.hsplit((1, 2)), *x[0, 0].hsplit((2,)), *x.dsplit(2)), torch.randn(3, 4, 6))
