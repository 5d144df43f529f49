"""What happened during one export: stages with time and memory, tries, notes."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from onnx_lab.program.source import Source


@dataclass(slots=True)
class Stage:
    """One stage of the road: wall seconds, and growth of the process's peak memory in MB."""

    name: str
    seconds: float
    peak_mb: float


@dataclass(slots=True)
class Try:
    """One capture strategy that was tried: ``error`` is None when it succeeded."""

    strategy: str
    seconds: float
    error: BaseException | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Frozen:
    """Something that a capture fixed at what it was for the example inputs.

    Attributes:
        what: what was frozen.
        found: how that is known.
        keep: the ``capture=`` that would keep it open, empty when none does.
        source: the line that did it.
    """

    what: str
    found: str
    keep: str
    source: Source

    def __str__(self) -> str:
        way = f"capture={self.keep!r} keeps it" if self.keep else "no capture keeps it: use torch's operators"
        return f"frozen: {self.what} ({self.source.where()}); {way}"


@dataclass(frozen=True, slots=True)
class ModuleMode:
    """A submodule whose own flag is not the mode that was asked for.

    Attributes:
        path, kind: dotted path and class name.
        asked: the mode of the export.
        flag: ``train`` or ``eval``, as the module has it.
        captured: the mode that it was captured in.
    """

    path: str
    kind: str
    asked: str
    flag: str
    captured: str


@dataclass(slots=True)
class Report:
    """The record of one export, complete also when it failed.

    Attributes:
        stages: in order of execution.
        tries: capture strategies in the order tried.
        notes: sentences for the reader: what was dropped, frozen, narrowed.
        training_modules: ``(path, class name)`` of submodules captured in training mode.
        training: the mode asked for: ``eval``, ``preserve`` or ``train``.
        modes: submodules whose own flag differs from it (with ``preserve``: from the flag of the whole model).
        frozen: what tracing fixed at the example's values.
        decomposed: number of calls decomposed locally, by operator key.
        unsupported: rows of operators without a lowering (see UnsupportedOperatorsError).
    """

    stages: list[Stage] = field(default_factory=list)
    tries: list[Try] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    training_modules: list[tuple[str, str]] = field(default_factory=list)
    training: str = "preserve"
    modes: list[ModuleMode] = field(default_factory=list)
    frozen: list[Frozen] = field(default_factory=list)
    decomposed: dict[str, int] = field(default_factory=dict)
    unsupported: list[dict[str, Any]] = field(default_factory=list)
    on_stage: Callable[[str], None] | None = field(default=None, repr=False, compare=False)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Record the time and memory of the enclosed block, also when it raises."""
        if self.on_stage is not None:
            self.on_stage(name)
        start, peak = time.perf_counter(), _peak_mb()
        try:
            yield
        finally:
            self.stages.append(Stage(name, time.perf_counter() - start, max(0.0, _peak_mb() - peak)))

    @property
    def seconds(self) -> float:
        return sum(stage.seconds for stage in self.stages)

    def __str__(self) -> str:
        lines = [f"{stage.name:<10} {stage.seconds:7.3f} s  {stage.peak_mb:+8.1f} MB peak" for stage in self.stages]
        for one in self.tries:
            outcome = "ok" if one.error is None else f"failed: {one.reason or type(one.error).__name__}"
            lines.append(f"capture {one.strategy}: {one.seconds:.3f} s, {outcome}")
        lines += [f"in training mode: {path or '(root)'} ({kind})" for path, kind in self.training_modules]
        lines += map(str, self.frozen)
        lines += [f"decomposed: {key} x{count}" for key, count in self.decomposed.items()]
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines)


def _peak_mb() -> float:
    """Peak resident memory of this process in MB (Linux counts in KiB, macOS in bytes)."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024) if sys.platform == "darwin" else peak / 1024
