"""Whatever happens while saving, what was there before is there, and nothing else."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
import torch

from onnx_lab.errors import SaveError
from onnx_lab.saving import save_model, stream
from tests.saving.models import weights_model

OLD, NEW = (weights_model({"w": torch.full((1000,), number)}) for number in (1.0, 2.0))


def number(path: Path) -> float:
    """The number that fills the weight of a model; the file and its data are valid together."""
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    [found] = session.run(["w_out"], {"x": np.zeros(1, np.float32)})
    values = set(found.tolist())
    assert len(values) == 1
    return values.pop()


def snapshot(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("missing/m.onnx", "the folder .*missing does not exist"),
        (".", "is a folder"),
        ("/dev/null", "is no ordinary file"),
        (f"{'x' * 300}.onnx", "the name is too long"),
    ],
)
def test_a_place_that_cannot_be_written(tmp_path: Path, path: str, message: str) -> None:
    with pytest.raises(SaveError, match=message) as caught:
        save_model(NEW, tmp_path / path)
    assert caught.value.hint
    assert not list(tmp_path.iterdir())


def break_writing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def pieces(value: Any) -> Iterator[bytes]:
        yield b"begun"
        raise error

    for module in ("stream", "external"):
        monkeypatch.setattr(f"onnx_lab.saving.{module}.raw_bytes", pieces)


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize(
    ("error", "raised"), [(OSError(errno.ENOSPC, "No space left"), SaveError), (KeyboardInterrupt(), KeyboardInterrupt)]
)
def test_an_interrupted_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, external: bool, error: BaseException, raised: type[BaseException]
) -> None:
    save_model(OLD, tmp_path / "m.onnx", external_data=external)
    before = snapshot(tmp_path)
    break_writing(monkeypatch, error)
    with pytest.raises(raised) as caught:
        save_model(NEW, tmp_path / "m.onnx", external_data=external)
    assert snapshot(tmp_path) == before
    if raised is SaveError:
        assert "the disk is full" in str(caught.value)


def watch_renames(monkeypatch: pytest.MonkeyPatch, act: Callable[[int], None]) -> list[Path]:
    """Call ``act`` with its number before each rename, and collect the targets."""
    targets: list[Path] = []
    rename = Path.replace

    def replace(self: Path, target: Path) -> Path:
        targets.append(target)
        act(len(targets) - 1)
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    return targets


@pytest.mark.parametrize("at", [0, 1, 2])
def test_an_interrupt_between_the_renames_is_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    save_model(OLD, tmp_path / "m.onnx", external_data=True)
    before = snapshot(tmp_path)

    def interrupt(count: int) -> None:
        if count == at:
            raise KeyboardInterrupt

    watch_renames(monkeypatch, interrupt)
    with pytest.raises(KeyboardInterrupt):
        save_model(NEW, tmp_path / "m.onnx", external_data=True)
    assert snapshot(tmp_path) == before


def test_a_new_pair_that_is_not_complete_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(count: int) -> None:
        if count == 1:
            raise KeyboardInterrupt

    watch_renames(monkeypatch, interrupt)
    with pytest.raises(KeyboardInterrupt):
        save_model(NEW, tmp_path / "m.onnx", external_data=True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("before", "after"), [(True, True), (True, False), (False, True), (False, False)])
def test_a_kill_at_any_moment_leaves_a_model_with_its_own_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bool, after: bool
) -> None:
    path = tmp_path / "m.onnx"
    save_model(OLD, path, external_data=before)
    seen = []
    targets = watch_renames(monkeypatch, lambda count: seen.append(number(path)))
    save_model(NEW, path, external_data=after)
    assert seen == [1.0] * len(targets)
    assert targets[-1] == path
    assert number(path) == 2.0
    assert {one.name for one in tmp_path.iterdir()} == {"m.onnx"} | ({"m.onnx.data"} if before or after else set())


def test_mode_and_link_of_the_old_file_stay(tmp_path: Path) -> None:
    target, link = tmp_path / "real.onnx", tmp_path / "m.onnx"
    save_model(OLD, target)
    target.chmod(0o640)
    link.symlink_to(target)
    assert save_model(NEW, link) == [target]
    assert link.is_symlink()
    assert target.stat().st_mode & 0o777 == 0o640
    assert number(link) == 2.0


def test_no_weight_is_a_copy() -> None:
    weight = torch.ones(1000)
    [value] = weights_model({"w": weight}).graph.initializers.values()
    [piece] = stream.raw_bytes(value)
    weight.zero_()
    assert not any(piece)
