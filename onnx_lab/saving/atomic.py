"""Files are written beside their final place and renamed when all of them are complete."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from onnx_lab.errors import SaveError

_MESSAGES = {
    errno.ENOSPC: ("the disk is full", "free some room, or write elsewhere"),
    errno.EDQUOT: ("the disk quota is used up", "free some room, or write elsewhere"),
    errno.EFBIG: ("the file is larger than the file system allows", "write elsewhere"),
    errno.EACCES: ("the place is not writable", "choose another folder"),
    errno.EROFS: ("the file system is read-only", "choose another folder"),
    errno.EPERM: ("the place is not writable", "choose another folder"),
    errno.ENAMETOOLONG: ("the name is too long", "choose a shorter one"),
}


class Replacement:
    """New contents for files of one folder; nothing is visible under the final names before ``commit``."""

    def __init__(self) -> None:
        self._pending: list[tuple[Path, Path]] = []
        self._kept: dict[Path, Path] = {}

    @contextmanager
    def open(self, path: Path) -> Iterator[BinaryIO]:
        """A file to write what shall be at ``path``."""
        temporary = _beside(path, "part")
        # Remembered before it exists: an interrupt in between leaves nothing behind.
        self._pending.append((temporary, path))
        with temporary.open("xb") as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        if path.exists():
            temporary.chmod(path.stat().st_mode & 0o777)

    def keep(self, path: Path) -> Path:
        """A second name for what is at ``path`` now; the file has it while ``commit`` runs."""
        return self._kept.setdefault(path, _beside(path, "kept"))

    def commit(self) -> None:
        """Rename all, in the order in which they were opened; all or none, unless the process is killed."""
        finals = list(dict.fromkeys(final for _, final in self._pending))
        for final in finals:
            if final.exists() and len(self._pending) > 1:  # one rename alone needs no way back
                _second_name(final, self.keep(final))
        done: list[Path] = []
        try:
            for temporary, final in self._pending:
                done.append(final)
                temporary.replace(final)
        except BaseException:
            self._restore(list(dict.fromkeys(reversed(done))))
            raise
        self._pending.clear()
        _sync_folders(finals)

    def _restore(self, finals: list[Path]) -> None:
        for final in finals:
            kept = self._kept.get(final)
            if kept is None:
                final.unlink(missing_ok=True)
                continue
            # By way of a third name: until the end, a file may refer to the kept one.
            back = _beside(final, "back")
            _second_name(kept, back)
            back.replace(final)
            back.unlink(missing_ok=True)  # renaming one name of a file to another of its names does nothing

    def discard(self) -> None:
        """Remove every temporary name."""
        for temporary in [*(temporary for temporary, _ in self._pending), *self._kept.values()]:
            temporary.unlink(missing_ok=True)
        self._pending.clear()
        self._kept.clear()


def _beside(path: Path, kind: str) -> Path:
    return path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}.{kind}")


def _second_name(path: Path, name: Path) -> None:
    """A hard link, or a copy where the file system has none."""
    try:
        os.link(path, name)
    except OSError:
        shutil.copy2(path, name)


def _sync_folders(paths: list[Path]) -> None:
    """Make the renames durable; all is written and in place, so a file system that cannot do it is no error."""
    for folder in {path.parent for path in paths}:
        with contextlib.suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


@contextmanager
def replacing(path: Path) -> Iterator[Replacement]:
    """All or nothing: on any exit but a clean one, Ctrl-C included, nothing under ``path`` has changed.

    Raises:
        SaveError: the place cannot be written.
    """
    replacement = Replacement()
    try:
        _check(path)
        yield replacement
    except SaveError:
        raise
    except OSError as error:
        what, hint = _MESSAGES.get(error.errno or 0, (error.strerror or str(error), "check the path"))
        raise SaveError(f"{path} could not be written: {what}", seen=str(error), hint=hint) from error
    finally:
        replacement.discard()


def _check(path: Path) -> None:
    if path.is_dir():
        raise SaveError(f"{path} is a folder", hint="give the path of a file, such as model.onnx")
    if path.exists() and not path.is_file():
        raise SaveError(f"{path} is no ordinary file", hint="give the path of a file, such as model.onnx")
    if not path.parent.is_dir():
        raise SaveError(f"the folder {path.parent} does not exist", hint="create it, or write elsewhere")
    if not os.access(path.parent, os.W_OK):
        raise SaveError(f"the folder {path.parent} is not writable", hint="choose another folder")
