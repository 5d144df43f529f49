"""Optional packages: loaded when they are needed, with an error that says what to install."""

from __future__ import annotations

import importlib
from typing import Any

from onnx_lab.errors import MissingExtraError

# Packages of the extra ``lab``; anything else that fails to import is a fault and is raised as it is.
_LAB = {"IPython", "ipywidgets", "anywidget", "traitlets", "pandas", "jinja2"}


def load_extra(module: str, what: str) -> Any:
    """Import ``module`` for the feature ``what``.

    Raises:
        MissingExtraError: a package of the extra ``lab`` is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _LAB:
            raise
        raise MissingExtraError(f"{what} needs {missing}", hint='pip install "onnx_lab[lab]"') from error
