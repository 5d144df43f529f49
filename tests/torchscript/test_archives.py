"""Files: what is taken, and what each file that is not is refused with."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import onnx_lab

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.*deprecated:DeprecationWarning")
INPUT = (torch.ones(1, 2),)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "linear.pt"
    torch.jit.script(nn.Linear(2, 2)).save(str(path))
    return path


def rewritten(source: Path, name: str, edit: Callable[[str, bytes], bytes | None]) -> Path:
    """The archive with some of its files changed, or left out."""
    target = source.with_name(name)
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for one in old.namelist():
            data = edit(one, old.read(one))
            if data is not None:
                new.writestr(one, data)
    return target


@pytest.mark.parametrize("as_text", [True, False])
def test_a_path_is_taken(saved: Path, as_text: bool) -> None:
    result = onnx_lab.export(str(saved) if as_text else saved, INPUT)
    assert result.captured.front_end == "script"
    assert result.verify().ok


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(onnx_lab.InputError, match="there is no file"):
        onnx_lab.export(tmp_path / "none.pt", INPUT)
    with pytest.raises(onnx_lab.InputError, match="is a folder"):
        onnx_lab.export(tmp_path, INPUT)


def test_a_file_that_is_no_archive(tmp_path: Path) -> None:
    path = tmp_path / "text.pt"
    path.write_text("hello")
    with pytest.raises(onnx_lab.InputError, match=r"text\.pt is no TorchScript archive"):
        onnx_lab.export(path, INPUT)
    path.write_bytes(b"")
    with pytest.raises(onnx_lab.InputError, match="is no TorchScript archive"):
        onnx_lab.export(path, INPUT)


def test_another_zip_and_one_that_is_cut_short(saved: Path) -> None:
    other = saved.with_name("other.pt")
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("a.txt", "x")
    with pytest.raises(onnx_lab.InputError, match=r"zip file, but no TorchScript archive"):
        onnx_lab.export(other, INPUT)
    data = saved.read_bytes()
    other.write_bytes(data[: len(data) // 2])
    with pytest.raises(onnx_lab.InputError, match="is a damaged archive"):
        onnx_lab.export(other, INPUT)


class Evil:
    """Touches a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (Path(self.path),)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_pickle_is_refused_before_it_is_read(tmp_path: Path, zipped: bool) -> None:
    touched = tmp_path / "touched"
    path = tmp_path / "pickled.pt"
    torch.save(Evil(str(touched)), path, _use_new_zipfile_serialization=zipped)
    with pytest.raises(onnx_lab.InputError, match="pickle of Python objects") as caught:
        onnx_lab.export(path, INPUT)
    assert "allow_pickle=True" in caught.value.hint
    assert not touched.exists()


def test_a_pickle_is_taken_when_the_user_says_so(tmp_path: Path) -> None:
    path = tmp_path / "pickled.pt"
    torch.save(nn.Linear(2, 2), path)
    module = onnx_lab.load_script(path, allow_pickle=True)
    assert isinstance(module, nn.Linear)
    assert onnx_lab.export(module, INPUT).verify().ok


def test_an_archive_of_torch_export(tmp_path: Path) -> None:
    path = tmp_path / "program.pt2"
    torch.export.save(torch.export.export(nn.Linear(2, 2), INPUT), path)
    with pytest.raises(onnx_lab.InputError, match=r"archive of torch\.export"):
        onnx_lab.export(path, INPUT)


def test_an_archive_of_another_torch(saved: Path) -> None:
    path = rewritten(saved, "new.pt", lambda name, data: b"999\n" if name.endswith("version") else data)
    with pytest.raises(onnx_lab.InputError, match="was written for another torch"):
        onnx_lab.export(path, INPUT)


def test_a_class_and_an_operator_that_are_not_registered(saved: Path) -> None:
    held = b"  bias : Tensor\n"
    path = rewritten(
        saved, "class.pt",
        lambda name, data: (
            data.replace(held, held + b"  q : __torch__.torch.classes.mine.Table\n") if name.endswith(".py") else data
        ),
    )  # fmt: skip
    with pytest.raises(onnx_lab.InputError, match="class that is not registered") as caught:
        onnx_lab.export(path, INPUT)
    assert "mine.Table" in caught.value.seen
    path = rewritten(
        saved, "operator.pt",
        lambda name, data: data.replace(b"torch.linear(", b"ops.mine.linear(") if name.endswith(".py") else data,
    )  # fmt: skip
    with pytest.raises(onnx_lab.InputError, match="operator that is not registered") as caught:
        onnx_lab.export(path, INPUT)
    assert "mine::linear" in caught.value.seen


def test_export_and_dynamo_do_not_take_scripts(saved: Path) -> None:
    for capture in ("export", "dynamo"):
        with pytest.raises(onnx_lab.InputError, match="takes no scripted or traced program"):
            onnx_lab.export(saved, INPUT, capture=capture)
