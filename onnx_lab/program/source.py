"""Where a captured call comes from: the user's line and the module that ran it."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Source:
    """The origin of one captured call.

    Attributes:
        file: path of the source file as Python reported it, or None when unknown.
        line: 1-based line number.
        function: name of the enclosing function.
        code: the text of the line, stripped.
        modules: the stack of modules, outermost first, as ``(path, class name)`` pairs;
            the root has the path ``""``.
        chain: keys of the calls that were decomposed to get here, outermost first.
    """

    file: str | None = None
    line: int | None = None
    function: str | None = None
    code: str | None = None
    modules: tuple[tuple[str, str], ...] = ()
    chain: tuple[str, ...] = ()

    @property
    def module_path(self) -> str:
        """Dotted path of the innermost module, ``""`` for the root."""
        return self.modules[-1][0] if self.modules else ""

    @property
    def module_type(self) -> str:
        """Class name of the innermost module, without its package."""
        return self.modules[-1][1].rpartition(".")[2] if self.modules else ""

    @property
    def location(self) -> str:
        """``model.py:41`` with the file's name only, ``In[3]:7`` for a notebook cell, or ``""``."""
        if self.file is None:
            return ""
        name = _cell_name(self.file) or self.file.replace("\\", "/").rpartition("/")[2]
        return f"{name}:{self.line}"

    def where(self) -> str:
        """``model.py:41 in Encoder.attn``: what an error message shows."""
        module = (self.module_path and f"{self.module_path} ({self.module_type})") or self.module_type
        parts = [self.location, f"in {module}" if module else ""]
        return " ".join(part for part in parts if part) or "an unknown place"

    def decomposed(self, key: str) -> Source:
        """The source of a call that a decomposition of ``key`` produced here."""
        return replace(self, chain=(*self.chain, key))


def _cell_name(file: str) -> str | None:
    """``In[3]`` when IPython compiled this file from its third cell."""
    # Asked of what is loaded: without IPython there are no cells, and nothing here needs it.
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    name = shell.compile.format_code_name(file) if shell is not None else None
    return str(name[1]) if name is not None else None


UNKNOWN = Source()
