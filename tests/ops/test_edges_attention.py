"""Attention: masks of every form, rows that forbid all, grouped heads, empty axes, half precision."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

from tests.ops.harness import check

OPSETS = (18, 23, 28)
B, H, L, S, E = 2, 3, 4, 5, 8
MASKS = [(L, S), (1, S), (L, 1), (1, 1, L, S), (B, 1, L, S), (B, H, L, S), (1, H, L, S), (B, 1, 1, S), (B, 1, L, 1),
         (1, 1, 1, S), (H, L, S), (1, L, S), (B, H, 1, S)]  # fmt: skip


def qkv(heads: int = H, kept: int = H) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.randn(B, heads, L, E), torch.randn(B, kept, S, E), torch.randn(B, kept, S, 6)


def attend(**options: Any) -> Any:
    return lambda *args: F.scaled_dot_product_attention(*args, **options)


def operators(result: Any) -> set[str]:
    return {node.op_type for node in result.model.graph}


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("shape", MASKS, ids=str)
def test_masks_of_every_shape(shape: tuple[int, ...], opset: int) -> None:
    check(attend(), *qkv(), torch.rand(shape) > 0.4, opset=opset)
    check(attend(), *qkv(), torch.randn(shape), opset=opset)


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("fill", [False, -math.inf, torch.finfo(torch.float32).min])
def test_a_row_that_forbids_all(fill: float, opset: int) -> None:
    """Zeros for false and −inf; an average for the lowest finite number."""
    mask = torch.ones(L, S, dtype=torch.bool) if fill is False else torch.zeros(L, S)
    mask[1] = fill
    check(attend(), *qkv(), mask, opset=opset)
    half = mask if fill is False else mask.clamp_min(torch.finfo(torch.float16).min if math.isfinite(fill) else fill)
    q, k, v = (one.half() for one in qkv())
    check(attend(), 8 * q, 8 * k, v, half if fill is False else half.half(), opset=opset, rtol=1e-2, atol=4e-3)


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("keys", [2, L, S])
def test_causal_is_aligned_at_the_top_left(keys: int, opset: int) -> None:
    q, k, v = qkv()
    check(attend(is_causal=True), q, k[:, :, :keys], v[:, :, :keys], opset=opset)


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("scale", [None, 0.3, 1.0, 0.0, -0.5])
def test_scale(scale: float | None, opset: int) -> None:
    check(attend(scale=scale), *qkv(), opset=opset)


@pytest.mark.parametrize("opset", OPSETS)
def test_grouped_heads(opset: int) -> None:
    grouped = attend(enable_gqa=True)
    check(grouped, *qkv(6, 2), opset=opset)
    check(grouped, *qkv(6, 2), torch.rand(B, 6, L, S) > 0.3, opset=opset)
    q, k, _ = qkv(6, 2)
    check(grouped, q, k, torch.randn(B, 3, S, 6), opset=opset)


@pytest.mark.parametrize("opset", OPSETS)
def test_ranks_and_broadcasting(opset: int) -> None:
    q, k, v = qkv()
    for args in ((q[0], k[0], v[0]), (q[0, 0], k[0, 0], v[0, 0]), (q[None], k[None], v[None]),
                 (q[:1], k, v), (q, k[:1], v[:1]), (q, k[:, :1], v[:, :1]), (q[:, :1], k, v)):  # fmt: skip
        check(attend(), *args, opset=opset)


@pytest.mark.parametrize("opset", OPSETS)
def test_empty_axes(opset: int) -> None:
    q, k, v = qkv()
    check(attend(), q[:, :, :0], k, v, opset=opset)
    check(attend(), q, k[:, :, :0], v[:, :, :0], opset=opset)
    check(attend(), q, k[:, :, :0], v[:, :, :0], torch.ones(L, 0, dtype=torch.bool), opset=opset)
    check(attend(), q[:0], k[:0], v[:0], opset=opset)


@pytest.mark.parametrize("opset", OPSETS)
def test_dynamic_sizes(opset: int) -> None:
    size = {0: Dim.DYNAMIC, 2: Dim.DYNAMIC}

    def more(queries: int, keys: int) -> tuple[torch.Tensor, ...]:
        return torch.randn(3, H, queries, E), torch.randn(3, H, keys, E), torch.randn(3, H, keys, 6)

    check(attend(is_causal=True), *qkv(), dynamic=(size,) * 3, again=[more(6, 2), more(1, 9)], opset=opset)
    padding = torch.rand(B, 1, 1, S) > 0.3
    dynamic = (size, size, size, {0: Dim.DYNAMIC, 3: Dim.DYNAMIC})
    again = [(*more(6, 2), torch.tensor([True, False, True]).reshape(3, 1, 1, 1).expand(3, 1, 1, 2).clone())]
    check(attend(), *qkv(), padding, dynamic=dynamic, again=again, opset=opset)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
@pytest.mark.parametrize("opset", OPSETS)
def test_other_types(opset: int, dtype: torch.dtype) -> None:
    q, k, v = (one.to(dtype) for one in qkv())
    tolerance = {"rtol": 1e-2, "atol": 4e-3} if dtype == torch.float16 else {"rtol": 1e-9, "atol": 1e-12}
    check(attend(), q, k, v, opset=opset, **tolerance)
    check(attend(), 100 * q, 100 * k, v, torch.randn(L, S).to(dtype), opset=opset, **tolerance)


def test_one_operator_where_the_kernel_is_right() -> None:
    """Attention in opsets 23 and 24; spelled out before, after, and for float masks."""
    boolean, floating = torch.rand(B, 1, L, S) > 0.2, torch.randn(L, S)
    assert operators(check(attend(), *qkv(), opset=23)) == {"Attention"}
    assert operators(check(attend(is_causal=True), *qkv(), opset=24)) == {"Attention"}
    assert operators(check(attend(), *qkv(), boolean)) == {"Attention", "Cast", "ReduceMax", "Mul"}
    for opset, masks in ((22, ()), (25, ()), (23, (floating,))):
        assert "Attention" not in operators(check(attend(), *qkv(), *masks, opset=opset))


@pytest.mark.parametrize("options", [{}, {"kdim": 5, "vdim": 6, "add_bias_kv": True, "add_zero_attn": True}])
@pytest.mark.parametrize("need_weights", [False, True])
def test_multi_head_attention(options: dict[str, Any], need_weights: bool) -> None:
    layer = torch.nn.MultiheadAttention(8, 2, batch_first=True, **options).eval()
    args = torch.randn(2, 3, 8), torch.randn(2, 4, options.get("kdim", 8)), torch.randn(2, 4, options.get("vdim", 8))
    padding = torch.tensor([[False] * 4, [False, False, True, True]])
    check(layer, *args, kwargs={"key_padding_mask": padding, "need_weights": need_weights})
