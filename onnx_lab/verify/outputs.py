"""Outputs of the model against eager PyTorch, on one or more inputs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import onnx_ir as ir

from onnx_lab.errors import MismatchError
from onnx_lab.verify.arrays import plain
from onnx_lab.verify.compare import Comparison, compare
from onnx_lab.verify.runtime import Session

if TYPE_CHECKING:
    import pandas as pd

_SHOWN = 12


class Captured(Protocol):
    """What verification needs of a capture."""

    @property
    def output_names(self) -> list[str]: ...

    def feeds(self, args: Any, kwargs: Any) -> Mapping[str, Any]: ...

    def run_outputs(self, args: Any, kwargs: Any) -> list[Any]: ...


@dataclass(frozen=True, slots=True)
class OutputRow:
    """One output on one set of inputs; dtype and shape are those of the runtime's value."""

    inputs: int
    output: str
    dtype: str
    shape: tuple[int, ...]
    comparison: Comparison


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """The comparison of all outputs on all sets of inputs."""

    rows: list[OutputRow]

    @property
    def ok(self) -> bool:
        """Whether every output agrees within the tolerance."""
        return all(row.comparison.ok for row in self.rows)

    @property
    def max_abs(self) -> float:
        """The largest difference; infinite when a shape differs."""
        return max((_size(row) for row in self.rows), default=0.0)

    def raise_on_mismatch(self) -> None:
        """Raise for the worst output when one differs.

        Raises:
            MismatchError: names the output, the element and both values.
        """
        wrong = [row for row in self.rows if not row.comparison.ok]
        if not wrong:
            return
        worst = max(wrong, key=_size)
        found = worst.comparison
        seen = found.detail or (
            f"at {list(found.index or ())}: {found.actual!r}, eager has {found.expected!r}"
            f" (largest difference {found.max_abs:.3g})"
        )
        where = f" on inputs {worst.inputs}" if self._sets() > 1 else ""
        more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise MismatchError(
            f"output {worst.output}{where} differs from eager PyTorch ({found.status}){more}",
            seen=seen,
            hint="result.diff() shows the call where it begins",
        )

    def frame(self) -> pd.DataFrame:
        """One row per output and set of inputs.

        Columns: inputs, output, status, dtype, shape, max_abs, mean_abs, max_rel, cosine, snr.
        """
        import pandas as pd

        return pd.DataFrame(
            {
                "inputs": [row.inputs for row in self.rows],
                "output": [row.output for row in self.rows],
                "status": pd.Categorical([row.comparison.status for row in self.rows]),
                "dtype": [row.dtype for row in self.rows],
                "shape": [str(list(row.shape)) for row in self.rows],
                "max_abs": [row.comparison.max_abs for row in self.rows],
                "mean_abs": [row.comparison.mean_abs for row in self.rows],
                "max_rel": [row.comparison.max_rel for row in self.rows],
                "cosine": [row.comparison.cosine for row in self.rows],
                "snr": [row.comparison.snr for row in self.rows],
            }
        )

    def _sets(self) -> int:
        return len({row.inputs for row in self.rows})

    def __repr__(self) -> str:
        verdict = "all outputs match" if self.ok else "outputs differ"
        sets = self._sets()
        given = f"{sets} set{'' if sets == 1 else 's'} of inputs"
        lines = [f"VerifyResult: {verdict} ({given}, largest difference {self.max_abs:.3g})"]
        for row in self.rows[:_SHOWN]:
            mark = "ok " if row.comparison.ok else "BAD"
            detail = row.comparison.detail or f"max abs {row.comparison.max_abs:.3g}"
            lines.append(f"  {mark} {row.output} {row.dtype}{list(row.shape)}  {detail}")
        if len(self.rows) > _SHOWN:
            lines.append(f"  ... {len(self.rows) - _SHOWN} more")
        return "\n".join(lines)


def _size(row: OutputRow) -> float:
    """A difference of shape is worse than any of numbers."""
    return math.inf if row.comparison.status == "shape" else row.comparison.max_abs


def verify_outputs(
    captured: Captured,
    model: ir.Model,
    calls: Sequence[tuple[tuple[Any, ...], Mapping[str, Any]]],
    *,
    rtol: float | None = None,
    atol: float | None = None,
) -> VerifyResult:
    """Run eager PyTorch and ONNX Runtime on each ``(args, kwargs)`` and compare all outputs.

    The model and the inputs are left as they were, also when forward writes to them.
    """
    session = Session(model)
    rows = []
    for number, (args, kwargs) in enumerate(calls):
        actual = session.run(captured.feeds(args, kwargs))
        expected = captured.run_outputs(args, kwargs)
        for name, want, value in zip(captured.output_names, expected, actual, strict=True):
            got = plain(value)
            found = compare(want, value, rtol=rtol, atol=atol)
            rows.append(OutputRow(number, name, got.dtype, got.array.shape, found))
    return VerifyResult(rows)
