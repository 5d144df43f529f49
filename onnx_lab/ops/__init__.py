"""Lowerings, one family a file; importing this package registers them all."""

import importlib
import pkgutil

FAMILIES = tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def load() -> None:
    """Import every family; harmless when repeated."""
    for family in FAMILIES:
        importlib.import_module(f"{__name__}.{family}")
