"""What is written after a magic: expressions, options and the compact form of dynamic shapes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from IPython.core.error import UsageError

_KEYWORD = re.compile(r"^([A-Za-z_]\w*)=(?!=)(.+)$", re.DOTALL)
_COMPACT = re.compile(r"^\s*(?:[A-Za-z_]\w*\s*:)?\s*-?\d+\s*=\s*[A-Za-z_]\w*")


def evaluate(expression: str, scope: Mapping[str, Any], what: str) -> Any:
    """A Python expression of the notebook.

    Raises:
        UsageError: it cannot be evaluated; an unknown name comes with the nearest one in scope.
    """
    text = (
        expression.strip().strip("'\"") if expression[:1] in "'\"" and expression[-1:] == expression[:1] else expression
    )
    try:
        return eval(text, dict(scope))  # noqa: S307  the notebook's own user wrote it
    except NameError as error:
        name = error.name or text
        close = difflib.get_close_matches(name, [one for one in scope if not one.startswith("_")], n=1)
        raise UsageError(
            f"{what}: no {name!r} in this notebook" + (f"; did you mean {close[0]!r}?" if close else "")
        ) from None
    except SyntaxError:
        raise UsageError(f"{what}: {text!r} is no Python expression") from None
    except Exception as error:  # noqa: BLE001  the user's own expression may raise anything
        raise UsageError(f"{what}: {text!r} raises {type(error).__name__}: {error}") from None


def split_inputs(parts: Sequence[str], scope: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """``x y mask=m`` as positional and keyword inputs; one tuple expression stands for several."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for part in parts:
        match = _KEYWORD.match(part)
        if match is not None:
            kwargs[match[1]] = evaluate(match[2], scope, f"input {match[1]}")
        else:
            args.append(evaluate(part, scope, "input"))
    if len(parts) == 1 and len(args) == 1 and isinstance(args[0], tuple):
        return args[0], kwargs
    return tuple(args), kwargs


def split_line(line: str) -> list[str]:
    """Words of a magic's line: blanks inside quotes, brackets and braces do not separate."""
    words: list[str] = []
    word, depth, quote = "", 0, ""
    for char in line:
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        if char.isspace() and not depth and not quote:
            if word:
                words.append(word)
            word = ""
        else:
            word += char
    return [*words, word] if word else words


def dynamic_spec(parts: Sequence[str], names: Sequence[str], scope: Mapping[str, Any]) -> Any:
    """Dynamic shapes: a Python expression, or the compact ``x:0=batch,1=time`` (``0=batch`` for one input).

    Raises:
        UsageError: neither form.
    """
    text = " ".join(parts)
    if not all(_COMPACT.match(part) for part in parts):
        return evaluate(text, scope, "--dynamic")
    tree: dict[str, dict[int, str] | None] = dict.fromkeys(names)
    for part in parts:
        head, colon, body = part.partition(":")
        name = head.strip() if colon else names[0]
        if name not in tree:
            raise UsageError(f"--dynamic: no input {name!r}; the inputs are {', '.join(names)}")
        axes = {}
        for item in (body if colon else part).split(","):
            axis, _, dim = item.partition("=")
            try:
                axes[int(axis)] = dim.strip()
            except ValueError:
                raise UsageError(f"--dynamic: {item!r} is no axis=name") from None
        tree[name] = axes
    return tree
