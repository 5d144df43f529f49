"""Convolutions: even kernels with "same", unbatched input, output padding, empty batches."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

from tests.ops.harness import check

SHAPES = {1: (2, 4, 9), 2: (2, 4, 9, 8), 3: (2, 4, 5, 6, 7)}
CONV = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
TRANSPOSED = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}


@pytest.mark.parametrize("spatial", [1, 2, 3])
class TestConvolutions:
    @pytest.mark.parametrize(
        "options",
        [
            {"stride": 2, "padding": 1, "dilation": 2, "groups": 2},
            {"bias": False},
            {"padding": "same"},
            {"padding": "same", "dilation": 2},
            {"padding": "valid", "stride": 2},
            {"padding": 1, "padding_mode": "reflect"},
            {"padding": 1, "padding_mode": "replicate"},
            {"padding": 1, "padding_mode": "circular"},
        ],
        ids=str,
    )
    @pytest.mark.parametrize("kernel", [2, 3, 4])
    def test_plain(self, spatial: int, options: dict[str, Any], kernel: int) -> None:
        if kernel == 4 and options.get("dilation") == 2 and spatial == 3:
            pytest.skip("the kernel is larger than the input")
        check(CONV[spatial](4, 6, kernel, **options), torch.randn(SHAPES[spatial]))

    @pytest.mark.parametrize(
        "options",
        [
            {"stride": 2, "padding": 1, "output_padding": 1, "groups": 2},
            {"stride": 3, "padding": 2, "dilation": 2, "output_padding": 2},
            {"stride": 1, "padding": 2, "dilation": 3, "output_padding": 2},
            {"stride": 1, "padding": 1, "dilation": 3, "output_padding": 2},
            {"stride": 1, "dilation": 3, "output_padding": 1, "bias": False},
            {"bias": False},
        ],
        ids=str,
    )
    def test_transposed(self, spatial: int, options: dict[str, Any]) -> None:
        check(TRANSPOSED[spatial](4, 6, 3, **options), torch.randn(SHAPES[spatial]))

    def test_unbatched(self, spatial: int) -> None:
        x = torch.randn(SHAPES[spatial][1:])
        check(CONV[spatial](4, 6, 3, padding="same"), x)
        check(TRANSPOSED[spatial](4, 6, 3), x)

    @pytest.mark.parametrize("kind", [CONV, TRANSPOSED], ids=["plain", "transposed"])
    def test_dynamic_and_empty(self, spatial: int, kind: dict[int, Any]) -> None:
        _, channels, first, *rest = SHAPES[spatial]
        again = [(torch.randn(0, channels, first, *rest),), (torch.randn(5, channels, first + 2, *rest),)]
        dynamic = ({0: Dim.DYNAMIC, 2: Dim.DYNAMIC},)
        check(kind[spatial](4, 6, 3, padding=1), torch.randn(SHAPES[spatial]), dynamic=dynamic, again=again)

    def test_float16(self, spatial: int) -> None:
        check(CONV[spatial](4, 6, 3).half(), torch.randn(SHAPES[spatial]).half(), rtol=1e-2, atol=1e-2)


def test_weights_that_are_inputs() -> None:
    check(torch.nn.functional.conv2d, torch.randn(1, 3, 5, 5), torch.randn(2, 3, 3, 3))


def test_what_decompositions_call() -> None:
    def plain(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.convolution(x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)

    def transposed(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.convolution(x, w, None, [2], [1], [1], True, [1], 1)

    check(plain, torch.randn(1, 3, 5, 5), torch.randn(2, 3, 3, 3))
    check(transposed, torch.randn(1, 3, 5), torch.randn(3, 2, 3))
    check(torch.conv_tbc, torch.randn(7, 2, 3), torch.randn(3, 3, 5), torch.randn(5), 1)
