"""Saved programs: read from a file without running anything, with an error that tells what the file is."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import torch

from onnx_lab.errors import InputError

_PICKLE_STARTS = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


def is_archive_path(model: Any) -> bool:
    """Whether a model is given as a path."""
    return isinstance(model, (str, os.PathLike))


def load_script(path: str | os.PathLike[str], *, allow_pickle: bool = False) -> Any:
    """The scripted or traced module in a file that ``torch.jit.save`` wrote; nothing else is run.

    Args:
        path: the file.
        allow_pickle: also take a module that ``torch.save`` pickled: loading it runs whatever code is in it.

    Raises:
        InputError: there is no such file, or it is no archive of TorchScript, or this torch cannot read it.
    """
    file = Path(path)
    if not file.exists():
        raise InputError(f"there is no file {file}", hint="check the path")
    if file.is_dir():
        raise InputError(f"{file} is a folder", hint="give the path of the file that torch.jit.save wrote")
    try:
        if allow_pickle and not _is_script(file):
            return torch.load(str(file), map_location="cpu", weights_only=False)
        _check_format(file)
        return torch.jit.load(str(file), map_location="cpu")
    except InputError:
        raise
    except Exception as error:  # torch raises RuntimeError, ValueError and others for a file that it cannot read
        raise _explained(file, error) from error


def _is_script(file: Path) -> bool:
    try:
        _check_format(file)
    except InputError:
        return False
    return True


def _check_format(file: Path) -> None:
    """Refuse what is no TorchScript archive before torch reads any of it: pickles run code when they are loaded."""
    if not zipfile.is_zipfile(file):
        start = _head(file)
        if start in _PICKLE_STARTS:
            raise InputError(
                f"{file.name} is a pickle of Python objects, no TorchScript archive",
                hint="if you trust it: onnx_lab.load_script(path, allow_pickle=True), and pass the module",
            )
        if start == b"PK":
            raise InputError(f"{file.name} is a damaged archive", hint="its end is missing: copy or save it again")
        raise InputError(
            f"{file.name} is no TorchScript archive",
            seen=f"it starts with {start!r}",
            hint="give a file that torch.jit.save wrote",
        )
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
    inner = {name.partition("/")[2] for name in names}
    if "constants.pkl" in inner or any(name.startswith("code/") for name in inner):
        return
    if any(name.endswith("archive_format") or name.startswith("models/") for name in inner) or file.suffix == ".pt2":
        raise InputError(
            f"{file.name} is an archive of torch.export", hint="pass torch.export.load(path): it is taken as it is"
        )
    if "data.pkl" in inner:
        raise InputError(
            f"{file.name} was written by torch.save: it is a pickle of Python objects, no TorchScript archive",
            hint="if you trust it: onnx_lab.load_script(path, allow_pickle=True), and pass the module",
        )
    raise InputError(
        f"{file.name} is a zip file, but no TorchScript archive",
        seen=f"it holds {', '.join(names[:3])}",
        hint="give a file that torch.jit.save wrote",
    )


def _head(file: Path) -> bytes:
    with file.open("rb") as stream:
        return stream.read(2)


def _explained(file: Path, error: Exception) -> InputError:
    text = str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    first = lines[0] if lines else type(error).__name__
    if "Unknown type name" in text or "custom class" in text.lower() or "torchbind" in text.lower():
        what = f"{file.name} uses a class that is not registered here"
        hint = "load the library that defines it first: torch.classes.load_library(path)"
    elif "Unknown builtin op" in text or "unknown builtin" in text.lower():
        what = f"{file.name} uses an operator that is not registered here"
        hint = "load the library that defines it first: torch.ops.load_library(path)"
    elif "version" in text.lower():
        what = f"{file.name} was written for another torch"
        hint = "load it with the torch that wrote it, and save it again with a version that both can read"
    else:
        what, hint = f"torch {torch.__version__} cannot read {file.name}", "write it again with torch.jit.save"
    return InputError(what, seen=first[:200], hint=hint)
