"""Functions whose own code asks a tensor for a number: equal ones that do not stand in while capturing.

Each gives the values, shapes and dtypes of the function that it replaces. What is left out are checks of
the data that only raise an error.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

_Original = Callable[..., Any]


def _cov(
    original: _Original,
    input: torch.Tensor,
    *,
    correction: int = 1,
    fweights: torch.Tensor | None = None,
    aweights: torch.Tensor | None = None,
) -> torch.Tensor:
    """Σ w (x − x̄)(y − ȳ)ᴴ / (Σw − correction · Σ w·a / Σ w), rows are variables."""
    rows = input.reshape(1, -1) if input.dim() < 2 else input
    if not (rows.is_floating_point() or rows.is_complex()):
        rows = rows.to(torch.get_default_dtype())
    weights = fweights
    if aweights is not None:
        weights = aweights if fweights is None else fweights * aweights
    if weights is None:
        centred, scaled = rows - rows.mean(1, keepdim=True), None
        total: Any = rows.shape[1]
        norm: Any = total - correction
    else:
        total = weights.sum()
        centred = rows - (rows * weights).sum(1, keepdim=True) / total
        scaled = weights
        lost = correction * (weights * aweights).sum() / total if aweights is not None else correction
        norm = total - lost
    norm = norm.clamp(min=0) if isinstance(norm, torch.Tensor) else torch.sym_max(norm, 0)
    other = centred if scaled is None else centred * scaled
    return ((other @ centred.mH) / norm).squeeze()


def _corrcoef(original: _Original, input: torch.Tensor) -> torch.Tensor:
    """Covariances over the roots of the variances, within −1 and 1."""
    covariance = _cov(original, input)
    if covariance.dim() == 0:
        return covariance / covariance
    deviation = covariance.diagonal().real.sqrt()
    made = covariance / deviation.unsqueeze(1) / deviation.unsqueeze(0)
    return made if made.is_complex() else made.clamp(-1, 1)


def _one_hot(original: _Original, tensor: torch.Tensor, num_classes: int = -1) -> torch.Tensor:
    """Without a number of classes: one more than the greatest class, a size known only at run time."""
    if num_classes != -1 or tensor.numel() == 0:
        return original(tensor, num_classes)
    classes = (tensor.max() + 1).item()
    torch._check(classes >= 0)
    return (tensor.unsqueeze(-1) == torch.arange(classes, device=tensor.device)).to(torch.int64)


def _gaussian_nll_loss(
    original: _Original,
    input: torch.Tensor,
    target: torch.Tensor,
    var: torch.Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> torch.Tensor:
    """½ (log var + (x − y)² / var), and ½ log 2π when full; var is at least eps."""
    if not isinstance(var, torch.Tensor):
        var = var * torch.ones_like(input)
    elif var.shape != input.shape and var.dim() == input.dim() - 1:
        var = var.unsqueeze(-1)
    var = var.clamp(min=eps)
    loss = 0.5 * (torch.log(var) + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.9189385332046727  # ½ log 2π
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def _combinations(original: _Original, input: torch.Tensor, r: int = 2, with_replacement: bool = False) -> torch.Tensor:
    """The places are known beforehand when the size is."""
    size = input.shape[0]
    if not isinstance(size, int) or r < 1:
        return original(input, r, with_replacement)
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = list(choose(range(size), r))
    return input[torch.tensor(places, dtype=torch.int64).reshape(len(places), r)]


def _narrow(original: _Original, input: torch.Tensor, dim: int, start: Any, length: int) -> torch.Tensor:
    """A start that is a tensor stays one."""
    if not isinstance(start, torch.Tensor):
        return original(input, dim, start, length)
    start = torch.where(start < 0, start + input.shape[dim], start)
    return input.index_select(dim, start.reshape(1) + torch.arange(length, device=input.device))


def _linear_cross_entropy(original: _Original, *args: Any, options: Any = None, **kwargs: Any) -> torch.Tensor:
    """Chunks save memory in training; the value is that of the plain computation."""
    return original(*args, **kwargs)


def _unique_consecutive(
    original: _Original, input: torch.Tensor, *args: Any, dim: int | None = None, **kwargs: Any
) -> torch.Tensor | tuple[torch.Tensor, ...]:
    """Torch's shape rule does not know dims counted from the end."""
    if dim is not None and dim < 0:
        dim += max(1, input.dim())
    made: torch.Tensor | tuple[torch.Tensor, ...] = original(input, *args, dim=dim, **kwargs)
    return made


def _ctc_loss(
    original: _Original,
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: Any,
    target_lengths: Any,
    *args: Any,
    **kwargs: Any,
) -> torch.Tensor:
    """Torch knows the shape of the result only when the lengths are tensors."""
    lengths = (torch.as_tensor(one, dtype=torch.int64) for one in (input_lengths, target_lengths))
    made: torch.Tensor = original(log_probs, targets, *lengths, *args, **kwargs)
    return made


_STAND_INS: dict[Any, Callable[..., Any]] = {
    torch.cov: _cov,
    torch.Tensor.cov: _cov,
    torch.corrcoef: _corrcoef,
    torch.Tensor.corrcoef: _corrcoef,
    functional.one_hot: _one_hot,
    functional.gaussian_nll_loss: _gaussian_nll_loss,
    torch.combinations: _combinations,
    torch.narrow: _narrow,
    torch.Tensor.narrow: _narrow,
    functional.linear_cross_entropy: _linear_cross_entropy,
    functional.ctc_loss: _ctc_loss,
    torch.ctc_loss: _ctc_loss,
    torch.unique_consecutive: _unique_consecutive,
    torch.Tensor.unique_consecutive: _unique_consecutive,
}


class StandIns(TorchFunctionMode):
    """While active, calls of the functions above go to what stands in for them, however they were imported."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        instead = _STAND_INS.get(func)
        if instead is None:
            return func(*args, **(kwargs or {}))
        return instead(func, *args, **(kwargs or {}))
