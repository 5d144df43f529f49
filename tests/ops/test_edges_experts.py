"""Grouped products of mixtures of experts: empty groups, dynamic rows, rows after the last group."""

from __future__ import annotations

import pytest
import torch

from tests.ops.harness import check

pytest.importorskip("transformers")


def test_groups_of_any_size() -> None:
    import transformers.integrations.moe  # noqa: F401  registers the operator

    def grouped(x: torch.Tensor, weight: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        return torch.ops.transformers.grouped_mm_fallback(x, weight, ends)

    weight = torch.randn(4, 3, 5)
    check(
        grouped,
        torch.randn(7, 3),
        weight,
        torch.tensor([2, 2, 6, 7]),
        dynamic=[{0: "rows"}, None, None],
        again=[
            (torch.randn(9, 3), weight, torch.tensor([0, 4, 4, 9])),
            (torch.randn(6, 3), weight, torch.tensor([1, 2, 3, 4])),
        ],
    )
