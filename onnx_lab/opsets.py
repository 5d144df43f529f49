"""Which opsets can be asked for, and why the default is what it is."""

from __future__ import annotations

from onnx_lab.errors import InputError

OLDEST = 18  # Reduce operators take their axes as inputs from here on
# The newest opset whose operators the runtime that we pin (onnxruntime 1.32) executes.
NEWEST = 28
# RMSNormalization, RotaryEmbedding and Attention exist from 23 on, so that transformer blocks stay
# readable and are as fast as their decomposed form; every runtime since mid 2025 reads it.
DEFAULT = 23


def resolve(opset_version: int | None) -> int:
    """The opset to write.

    Raises:
        InputError: not an integer, or outside ``OLDEST`` to ``NEWEST``.
    """
    if opset_version is None:
        return DEFAULT
    if isinstance(opset_version, bool) or not isinstance(opset_version, int):
        raise InputError(f"opset_version={opset_version!r} is no integer", hint=f"use {OLDEST} to {NEWEST}")
    if not OLDEST <= opset_version <= NEWEST:
        raise InputError(
            f"opset {opset_version} cannot be written",
            seen=f"opset_version={opset_version}",
            hint=f"use {OLDEST} to {NEWEST}, or leave it out for {DEFAULT}",
        )
    return opset_version
