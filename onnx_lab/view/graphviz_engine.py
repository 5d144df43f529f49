"""Layout by Graphviz in a process of its own: ``dot``, else the pip-only ``graphviz-pure``."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

VARIABLE = "ONNX_LAB_DOT"
TIME_LIMIT = 10.0  # seconds for one layout


class LayoutError(Exception):
    """No engine, a time-out, or a failure of the engine; the text says which."""


@functools.cache
def engine() -> str | None:
    """Path of the program that lays graphs out: $ONNX_LAB_DOT, ``dot``, ``graphviz-pure``; None without any."""
    asked = os.environ.get(VARIABLE)
    if asked:
        return asked
    scripts = Path(sysconfig.get_path("scripts"))
    bundled = [scripts / name for name in ("graphviz-pure", "graphviz-pure.exe")]
    found = [shutil.which("dot"), *(str(path) for path in bundled if path.exists()), shutil.which("graphviz-pure")]
    return next((path for path in found if path), None)


def layout(dot: str, form: str = "svg", *, time_limit: float = TIME_LIMIT, options: tuple[str, ...] = ()) -> bytes:
    """Lay ``dot`` out as ``svg`` or ``png``.

    Raises:
        LayoutError: there is no engine, it failed, or it took longer than ``time_limit`` seconds.
    """
    program = engine()
    if program is None:
        raise LayoutError('no Graphviz: install it from your system, or "pip install onnx_lab[lab]"')
    try:
        done = subprocess.run(
            [program, f"-T{form}", *options], input=dot.encode(), capture_output=True, timeout=time_limit, check=False
        )
    except subprocess.TimeoutExpired:
        raise LayoutError(f"the layout took more than {time_limit:.0f} s: fold more (depth=1)") from None
    except OSError as error:
        raise LayoutError(f"{program} cannot be run: {error}") from error
    if done.returncode or not done.stdout:
        raise LayoutError(f"{program} failed: {done.stderr.decode(errors='replace').strip()[:200]}")
    return done.stdout
