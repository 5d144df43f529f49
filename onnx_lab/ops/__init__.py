"""Lowerings, one family a file; importing this package registers them all."""

import importlib

FAMILIES = (
    "activation",
    "attention",
    "comparison",
    "complex",
    "control_flow",
    "convolution",
    "creation",
    "distance",
    "elementwise",
    "factorization",
    "indexing",
    "linalg",
    "normalization",
    "padding",
    "pooling",
    "quantize",
    "recurrent",
    "reduction",
    "resize",
    "scattering",
    "shape",
    "spectral",
    "symint",
    "vision",
)


def load() -> None:
    """Import every family; harmless when repeated."""
    for family in FAMILIES:
        importlib.import_module(f"{__name__}.{family}")
