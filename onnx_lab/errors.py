"""Every error that onnx_lab raises: what happened, where, what was seen, what to do."""

from __future__ import annotations

from typing import Any

from onnx_lab.program.source import Source


class OnnxLabError(Exception):
    """Base class of all errors of onnx_lab.

    Attributes:
        op: key of the operator concerned, or None.
        source: where the user's code caused it, or None.
        seen: the value or condition that was met.
        hint: what to do about it.
        report: the report of the run that failed, or None.
    """

    def __init__(
        self,
        what: str,
        *,
        op: str | None = None,
        source: Source | None = None,
        seen: str = "",
        hint: str = "",
        report: Any = None,
    ) -> None:
        super().__init__(what)
        self.what, self.op, self.source = what, op, source
        self.seen, self.hint, self.report = seen, hint, report

    def lines(self) -> list[str]:
        """At most four short lines: what; where; what was seen; what to do."""
        found = [self.what]
        if self.source is not None and (self.source.file or self.source.modules):
            code = f"    {self.source.code}" if self.source.code else ""
            found.append(f"  at {self.source.where()}{code}")
        if self.seen:
            found.append(f"  seen: {self.seen}")
        if self.hint:
            found.append(f"  do: {self.hint}")
        return found

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows in place of the traceback; the cause stays in ``__cause__``."""
        first, *rest = self.lines()
        return [f"{type(self).__name__}: {first}", *rest]


class InputError(OnnxLabError, ValueError):
    """An argument of a public function cannot be used; nothing was run."""


class MissingExtraError(OnnxLabError, ImportError):
    """An optional package is needed; ``hint`` says which extra to install."""


class CaptureError(OnnxLabError):
    """No front end could capture the model; torch's own error is the ``__cause__``."""


class MutationError(CaptureError):
    """A write or an alias that functionalization does not understand."""


class RegistrationError(OnnxLabError):
    """A lowering was registered twice, or for a key that does not exist."""


class LoweringError(OnnxLabError):
    """The captured graph could not be turned into ONNX."""


class UnsupportedOperatorsError(LoweringError):
    """Operators without a lowering: all of them, in ``operators``.

    ``operators`` is a list of dicts with the keys ``op``, ``count``, ``modules``, ``source``,
    ``shapes``, ``reason`` and ``nearest``.
    """

    def __init__(self, what: str, *, operators: list[dict[str, Any]], **rest: Any) -> None:
        super().__init__(what, **rest)
        self.operators = operators

    def lines(self) -> list[str]:
        rows = [
            f"  {row['op']}  x{row['count']}  at {row['source'].where()}: {row['reason']}"
            for row in self.operators[:12]
        ]
        if len(self.operators) > 12:
            rows.append(f"  ... and {len(self.operators) - 12} more (see .operators)")
        first, *rest = super().lines()
        return [first, *rows, *rest]


class UnsupportedCaseError(LoweringError):
    """The operator has a lowering, but not for this argument.

    A decomposition is tried next, unless ``final`` says that it would give other numbers than eager.
    """

    final = False


class InternalLoweringError(LoweringError):
    """A lowering broke its contract: a fault of onnx_lab or of a registered lowering."""


class PassError(OnnxLabError):
    """A pass over the ONNX graph broke one of its invariants."""


class SaveError(OnnxLabError, OSError):
    """The model could not be written; what was there before is untouched."""


class VerificationError(OnnxLabError):
    """The written model and eager PyTorch do not agree, or could not be compared."""


class RuntimeRejectedError(VerificationError):
    """ONNX Runtime refused the model or failed while running it."""


class MismatchError(VerificationError):
    """Outputs differ by more than the tolerance."""
