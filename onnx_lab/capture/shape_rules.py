"""Shapes of operators that torch itself cannot tell without running them, known while a model is captured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

Tensors = tuple[torch.Tensor, ...]


def _histogram(x: torch.Tensor, bins: int = 100, **kwargs: Any) -> Tensors:
    return x.new_empty(bins), x.new_empty(bins + 1)


def _histogram_between(x: torch.Tensor, bins: torch.Tensor, **kwargs: Any) -> Tensors:
    return x.new_empty(bins.shape[0] - 1), torch.empty_like(bins)


def _grid_edges(x: torch.Tensor, bins: Sequence[int], **kwargs: Any) -> list[torch.Tensor]:
    return [x.new_empty(count + 1) for count in bins]


def _grid(x: torch.Tensor, bins: Sequence[int], **kwargs: Any) -> torch.Tensor:
    return x.new_empty(tuple(bins))


def _grid_between(x: torch.Tensor, bins: Sequence[torch.Tensor], **kwargs: Any) -> torch.Tensor:
    return x.new_empty([edges.shape[0] - 1 for edges in bins])


def _ctc(log_probs: torch.Tensor, *args: Any, **kwargs: Any) -> Tensors:
    """A loss for each sample; the second result serves gradients only."""
    return log_probs.new_empty(log_probs.shape[1:-1]), log_probs.new_empty(0)


def _binomial(count: torch.Tensor, prob: torch.Tensor, generator: None = None) -> torch.Tensor:
    return count.new_empty(torch.broadcast_shapes(count.shape, prob.shape))


def _like(x: torch.Tensor, generator: None = None) -> torch.Tensor:
    return torch.empty_like(x)


_RULES: dict[str, Callable[..., Any]] = {
    "aten::histogram.bin_ct": _histogram,
    "aten::histogram.bins_tensor": _histogram_between,
    "aten::_histogramdd_bin_edges": _grid_edges,
    "aten::_histogramdd_from_bin_cts": _grid,
    "aten::_histogramdd_from_bin_tensors": _grid_between,
    "aten::_ctc_loss.Tensor": _ctc,
    "aten::binomial": _binomial,
    "aten::_sample_dirichlet": _like,
}


@contextmanager
def shape_rules() -> Iterator[None]:
    """While inside, torch knows these rules; it has none of its own that would be replaced."""
    with torch.library._scoped_library("aten", "FRAGMENT") as library:
        for name, rule in _RULES.items():
            if not torch._C._dispatch_has_kernel_for_dispatch_key(name, "Meta"):
                torch.library.register_fake(name, rule, lib=library)
        yield
