"""onnx_lab: export PyTorch models to ONNX, and look at every step.

Names are loaded when they are first used, so that importing the package stays cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnx_lab.api import coverage as coverage
    from onnx_lab.api import export as export
    from onnx_lab.capture.torchscript.archive import load_script as load_script
    from onnx_lab.operators import Coverage as Coverage
    from onnx_lab.result import ExportResult as ExportResult

__version__ = "0.1.0"

_PUBLIC = {
    "export": "onnx_lab.api",
    "coverage": "onnx_lab.api",
    "load_script": "onnx_lab.capture.torchscript.archive",
    "Coverage": "onnx_lab.operators",
    "ExportResult": "onnx_lab.result",
    "lowering": "onnx_lab.lower.registry",
    "Report": "onnx_lab.program.report",
    "Drawing": "onnx_lab.view.drawing",
    "explorer": "onnx_lab.notebook.explorer",
    **dict.fromkeys(
        (
            "OnnxLabError",
            "InputError",
            "MissingExtraError",
            "CaptureError",
            "MutationError",
            "RegistrationError",
            "LoweringError",
            "UnsupportedOperatorsError",
            "UnsupportedCaseError",
            "InternalLoweringError",
            "PassError",
            "SaveError",
            "VerificationError",
            "RuntimeRejectedError",
            "MismatchError",
        ),
        "onnx_lab.errors",
    ),
}

__all__ = ["__version__", "load_ipython_extension", "unload_ipython_extension"]
__all__ += list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'onnx_lab' has no attribute {name!r}")
    module = _PUBLIC[name]
    if module.startswith("onnx_lab.notebook"):
        value = getattr(importlib.import_module("onnx_lab.extras").load_extra(module, f"onnx_lab.{name}"), name)
    else:
        value = getattr(importlib.import_module(module), name)
    # `onnx_lab.operators` is a module of the package as well: the function is what users mean.
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


def load_ipython_extension(ip: Any) -> None:
    """``%load_ext onnx_lab``."""
    importlib.import_module("onnx_lab.notebook.extension").load(ip)


def unload_ipython_extension(ip: Any) -> None:
    """``%unload_ext onnx_lab``."""
    importlib.import_module("onnx_lab.notebook.extension").unload(ip)
