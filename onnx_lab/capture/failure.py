"""From torch's long errors to a few lines: the kind of failure, the user's line, what to change."""

from __future__ import annotations

import linecache
import re
import traceback
from collections.abc import Sequence

from onnx_lab.capture.sources import is_torch_file
from onnx_lab.errors import CaptureError, OnnxLabError
from onnx_lab.program.report import Try
from onnx_lab.program.source import Source

# Pattern in torch's text → what kind of failure that is, and a way out.
KINDS: tuple[tuple[str, str, str], ...] = (
    (
        r"data-dependent (expression|branch)|GuardOnDataDependent|Dynamic control flow|bool\(\) on.*tensor|Eq\(u\d+",
        "data-dependent control flow: a Python branch or loop reads a tensor's values",
        (
            "use torch.cond for the branch (or torch.where when both sides are cheap); for a size read from data, "
            "call torch._check on its range"
        ),
    ),
    (
        r"specializ|inferred a static shape|Not all values of|constraints? violated|ConstraintViolation|were violated",
        "a dim that was asked to be dynamic is a constant for the model (it specializes the size)",
        (
            "leave that axis static, or remove what fixes it: a Python loop or int() over the size, or a parameter "
            "of that size"
        ),
    ),
    (
        r"Unsupported|graph break|torch\._dynamo\.exc",
        "Python that TorchDynamo cannot follow",
        "move that line out of forward, or rewrite it with tensor operations",
    ),
    (
        r"unsupported.*(input|output) type|Expecting.*pytree|type.*not supported.*(input|output)",
        "an input or output of a type that cannot cross the model's border",
        "use tensors, tuples, lists, dicts or dataclasses of them",
    ),
    (r"mutat|in-?place", "a write that cannot be followed", "clone the tensor before writing to it"),
)
# A dim that torch found to be constant, and a remark of torch's that leads nowhere from here.
_FIXED = re.compile(r"You marked L\['([^]]+)'\](?:\S*)\.size\(\)\[(\d+)\] as dynamic but .*? constant \((\d+)\)")
_MORE = re.compile(r"For more information, run with TORCH_LOGS=\S+")
_FILE = re.compile(r"(?:Caused by: \(|File \")([^\"():]+\.py|[^\"\n]*?)(?::|\", line )(\d+)(?: in (\w+)|, in (\w+))?")


def explain(tries: Sequence[Try], model_name: str) -> CaptureError:
    """The error for a capture on which every strategy failed; torch's own error is its cause."""
    first = tries[0].error
    assert first is not None
    if isinstance(first, CaptureError):
        first.hint = first.hint or ""
        return first
    kind, hint = classify(first)
    error = CaptureError(
        f"{model_name} cannot be captured: {kind}",
        source=next((found for one in tries if one.error is not None and (found := user_frame(one.error))), None),
        seen=_seen(tries),
        hint=hint,
    )
    error.__cause__ = first
    return error


def _seen(tries: Sequence[Try]) -> str:
    """What each strategy met; said once when they met the same."""
    reasons = list(dict.fromkeys(one.reason for one in tries))
    if len(reasons) == 1 and len(tries) > 1:
        return f"{reasons[0]} ({' and '.join(one.strategy for one in tries)})"
    return "; ".join(f"{one.strategy}: {one.reason}" for one in tries)


def classify(error: BaseException) -> tuple[str, str]:
    """The kind of a failure and a way out."""
    text = f"{type(error).__name__}: {error}"
    for pattern, kind, hint in KINDS:
        if re.search(pattern, text, re.IGNORECASE | re.DOTALL):
            return kind, hint
    return f"{type(error).__name__} in the model's own code or in torch", "run the model eagerly on these inputs first"


def is_control_flow(error: BaseException) -> bool:
    """Whether a capture failed at a branch or loop that a tensor's values or a dynamic size decide."""
    return classify(error)[0] in (KINDS[0][1], KINDS[1][1])


def reason(error: BaseException) -> str:
    """The first telling line of an error."""
    if isinstance(error, OnnxLabError):
        return error.what
    fixed = _FIXED.findall(str(error))
    if fixed:
        return ", ".join(dict.fromkeys(f"axis {axis} of {name} is always {size}" for name, axis, size in fixed))
    lines = [_MORE.sub("", line).strip() for line in str(error).splitlines() if line.strip()]
    text = f"{type(error).__name__}: {lines[0] if lines else ''}"
    return text if len(text) <= 160 else text[:157] + "..."


def user_frame(error: BaseException) -> Source | None:
    """The innermost frame outside torch, of the error or of what caused it.

    Torch names the user's line in the message when the frames that fail are its own.
    """
    named = [match for match in _FILE.finditer(str(error)) if match[1] and not is_torch_file(match[1])]
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__ or current.__context__
    for one in reversed(chain):
        frames = [
            frame for frame in traceback.extract_tb(one.__traceback__)
            if not is_torch_file(frame.filename) and "/onnx_lab/" not in frame.filename.replace("\\", "/")
        ]  # fmt: skip
        if frames and frames[-1].name not in ("<module>", "_call_impl"):
            last = frames[-1]
            return Source(last.filename, last.lineno, last.name, last.line)
    if named:
        file, line = named[-1][1], int(named[-1][2])
        return Source(file, line, named[-1][3] or named[-1][4], linecache.getline(file, line).strip() or None)
    return None
