"""Recurrent layers stay one call while capturing.

torch.export takes ``torch.lstm`` and its kin apart into steps, which freezes the time axis. An operator
of our own with a shape rule stands in for them while a model is captured.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

_SCHEMAS = {
    "lstm": "Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, "
    "bool bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor)",
    **dict.fromkeys(
        ("gru", "rnn_tanh", "rnn_relu"),
        "Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, "
        "bool bidirectional, bool batch_first) -> (Tensor, Tensor)",
    ),
}
# torch's own functions, taken before anything is replaced.
_ORIGINALS = {name: getattr(torch._VF, name) for name in _SCHEMAS}


@functools.cache
def register() -> torch.library.Library:
    """Define ``onnx_lab::lstm``, ``gru``, ``rnn_tanh`` and ``rnn_relu``; the library keeps them alive."""
    library = torch.library.Library("onnx_lab", "DEF")
    for name, rest in _SCHEMAS.items():
        library.define(f"{name}(Tensor input, {rest}")
        library.impl(name, _eager(name), "CompositeExplicitAutograd")
        torch.library.register_fake(f"onnx_lab::{name}", _fake_lstm if name == "lstm" else _fake_rnn, lib=library)
    return library


def _eager(name: str) -> Any:
    original = _ORIGINALS[name]

    def run(*args: Any) -> Any:
        # Custom operators may not return views of each other or of their inputs.
        return tuple(one.clone() for one in original(*args))

    return run


def _fake_lstm(
    x: torch.Tensor,
    hx: Sequence[torch.Tensor],
    params: Sequence[torch.Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(T, N, I) → (T, N, D·H), (L·D, N, H), (L·D, N, cells)."""
    out, hidden = _fake_rnn(x, hx[0], params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
    return out, hidden, torch.empty_like(hx[1])


def _fake_rnn(
    x: torch.Tensor,
    hx: torch.Tensor,
    params: Sequence[torch.Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    width = hx.shape[-1] * (2 if bidirectional else 1)
    return x.new_empty((*x.shape[:-1], width)), torch.empty_like(hx)


def _stand_in(name: str) -> Any:
    operator = getattr(torch.ops.onnx_lab, name)

    def call(*args: Any) -> Any:
        # The form for packed sequences has the batch sizes as second argument.
        if isinstance(args[1], torch.Tensor) and args[1].dim() == 1 and not args[1].is_floating_point():
            return _ORIGINALS[name](*args)
        return operator(*args)

    return call


@contextmanager
def kept_whole() -> Iterator[None]:
    """While inside, recurrent layers are captured as one call each."""
    register()
    holders = (torch._VF, torch)
    before = [(holder, name, getattr(holder, name)) for holder in holders for name in _SCHEMAS if hasattr(holder, name)]
    try:
        for holder, name, _ in before:
            setattr(holder, name, _stand_in(name))
        yield
    finally:
        for holder, name, original in before:
            setattr(holder, name, original)
