"""What ``%load_ext onnx_lab`` does, and how it is undone."""

from __future__ import annotations

from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from onnx_lab.notebook import silence
from onnx_lab.notebook.completion import NAMES, complete
from onnx_lab.notebook.magics import LabMagics

_LOADED = "_onnx_lab_magics"


def load(ip: InteractiveShell) -> None:
    """Register the magics and their completion; harmless when repeated. Loads no torch."""
    if getattr(ip, _LOADED, None) is not None:
        return
    magics = LabMagics(shell=ip)
    ip.register_magics(magics)
    for name in NAMES:
        ip.set_hook("complete_command", complete, str_key=f"%{name}")
        ip.set_hook("complete_command", complete, str_key=name)
    silence.install(ip.displayhook)
    setattr(ip, _LOADED, magics)


def unload(ip: InteractiveShell) -> None:
    """Take all of it away again."""
    if getattr(ip, _LOADED, None) is None:
        return
    for name in NAMES:
        ip.magics_manager.magics["line"].pop(name, None)
        for key in (f"%{name}", name):
            _remove_hook(ip, key)
    silence.remove(ip.displayhook)
    setattr(ip, _LOADED, None)


def _remove_hook(ip: Any, key: str) -> None:
    table = ip.strdispatchers.get("complete_command")
    if table is not None:
        table.strs.pop(key, None)
