"""What is known of single operators of PyTorch's database; all others pass in every element type.

A gap says why: ours (no lowering yet), ORT (the runtime), ONNX (the format), or eager (whose own result is doubtful).
It is strict: a test that passes in spite of its gap fails until the gap is taken out.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.ops.opinfo import DTYPES

HALF = ("float16", "bfloat16")
EVERY = tuple(DTYPES)


@dataclass
class Case:
    """Gaps by element type, tolerances (relative, absolute), and whether the order of equal elements is defined."""

    gaps: dict[str, str] = field(default_factory=dict)
    tolerance: dict[str, tuple[float, float]] = field(default_factory=dict)
    order: bool = True

    def reason(self, dtype: str) -> str | None:
        return self.gaps.get(dtype)

    def xfail(self, dtypes: str | tuple[str, ...], reason: str) -> Case:
        self.gaps |= dict.fromkeys(dtypes.split() if isinstance(dtypes, str) else dtypes, reason)
        return self

    def within(self, dtypes: str | tuple[str, ...], rtol: float, atol: float) -> Case:
        self.tolerance |= dict.fromkeys(dtypes.split() if isinstance(dtypes, str) else dtypes, (rtol, atol))
        return self


KNOWN: dict[str, Case] = {}


def op(*names: str) -> Case:
    """One entry for operators that behave alike."""
    case = Case()
    KNOWN.update(dict.fromkeys(names, case))
    return case


def case_of(name: str) -> Case:
    return KNOWN.get(name, Case())
