"""Files are written beside their final place and renamed when all of them are complete."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from onnx_lab.errors import SaveError

_MESSAGES = {
    errno.ENOSPC: ("the disk is full", "free some room, or write elsewhere"),
    errno.EDQUOT: ("the disk quota is used up", "free some room, or write elsewhere"),
    errno.EACCES: ("the place is not writable", "choose another folder"),
    errno.EROFS: ("the file system is read-only", "choose another folder"),
    errno.EPERM: ("the place is not writable", "choose another folder"),
}


class Replacement:
    """New contents for several files; nothing is visible under the final names before ``commit``."""

    def __init__(self) -> None:
        self._pending: list[tuple[Path, Path]] = []

    @contextmanager
    def open(self, path: Path) -> Iterator[BinaryIO]:
        """A file to write what shall be at ``path``."""
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        self._pending.append((Path(name), path))
        with os.fdopen(descriptor, "wb") as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())

    def commit(self) -> list[Path]:
        """Rename all, in the order in which they were opened."""
        done = []
        while self._pending:
            temporary, final = self._pending[0]
            _keep_mode(temporary, final)
            os.replace(temporary, final)
            self._pending.pop(0)
            done.append(final)
        return done

    def discard(self) -> None:
        """Remove what was not committed."""
        for temporary, _ in self._pending:
            temporary.unlink(missing_ok=True)
        self._pending.clear()


def _keep_mode(temporary: Path, final: Path) -> None:
    """Temporary files are private; the final one has the mode of what it replaces, or the usual one."""
    if final.exists():
        mode = final.stat().st_mode & 0o777
    else:
        mask = os.umask(0)
        os.umask(mask)
        mode = 0o666 & ~mask
    os.chmod(temporary, mode)


@contextmanager
def replacing(path: Path) -> Iterator[Replacement]:
    """All or nothing: on any exit but a clean one, Ctrl-C included, nothing under ``path`` has changed.

    Raises:
        SaveError: the place cannot be written.
    """
    _check(path)
    replacement = Replacement()
    try:
        yield replacement
    except OSError as error:
        what, hint = _MESSAGES.get(error.errno or 0, (error.strerror or str(error), "check the path"))
        raise SaveError(f"{path} could not be written: {what}", seen=str(error), hint=hint) from error
    finally:
        replacement.discard()


def _check(path: Path) -> None:
    if path.is_dir():
        raise SaveError(f"{path} is a folder", hint="give the path of a file, such as model.onnx")
    if not path.parent.is_dir():
        raise SaveError(f"the folder {path.parent} does not exist", hint="create it, or write elsewhere")
    if not os.access(path.parent, os.W_OK):
        raise SaveError(f"the folder {path.parent} is not writable", hint="choose another folder")
