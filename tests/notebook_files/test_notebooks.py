"""Each notebook runs from its source, shows what its text promises, and is committed as it was built."""

from __future__ import annotations

import functools
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import nbformat
import numpy as np
import onnx
import onnxruntime
import pytest
from PIL import Image, ImageOps
from skimage import data

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
WIDGET = "application/vnd.jupyter.widget-view+json"
EGYPTIAN_CAT, ESPRESSO = 285, 967


def load_builder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("notebooks_build", NOTEBOOKS / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


BUILDER = load_builder()
SOURCES = BUILDER.sources()
each_notebook = pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)


@pytest.fixture(scope="session")
def run_once(tmp_path_factory):
    """The executed notebook and the folder it ran in; each notebook runs once for all tests."""

    @functools.cache
    def run(source):
        folder = tmp_path_factory.mktemp(source.stem)
        return BUILDER.run(BUILDER.read(source), folder), folder

    return run


def outputs(notebook):
    return [(cell, output) for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def printed(notebook):
    return "".join(output.text for _, output in outputs(notebook) if output.output_type == "stream")


def of_magic(notebook, magic):
    """Mime types of the outputs of the cell that calls ``magic``."""
    [cell] = [cell for cell in notebook.cells if cell.cell_type == "code" and f"%{magic} " in cell.source]
    return {mime for output in cell.outputs for mime in output.get("data", {})}


def html_of(notebook):
    return [output.data["text/html"] for _, output in outputs(notebook) if "text/html" in output.get("data", {})]


@each_notebook
@pytest.mark.xdist_group("notebooks")
def test_runs_without_noise(source, run_once):
    notebook, _ = run_once(source)
    stderr = [output.text for _, output in outputs(notebook) if output.get("name") == "stderr"]
    assert stderr == []
    assert "Warning" not in printed(notebook)
    assert "widgets" not in notebook.metadata
    for cell, output in outputs(notebook):
        # A static picture first: a widget is a blank place wherever its front end is missing.
        assert set(output.get("data", {})) != {WIDGET, "text/plain"}, cell.source


@each_notebook
def test_committed_notebook_is_built_from_its_source(source):
    committed = nbformat.read(source.with_suffix(".ipynb"), as_version=4)
    fresh = BUILDER.read(source)
    assert [(cell.cell_type, cell.id, cell.source) for cell in committed.cells] == [
        (cell.cell_type, cell.id, cell.source) for cell in fresh.cells
    ], "run `make notebooks`"
    assert "widgets" not in committed.metadata
    assert source.with_suffix(".ipynb").stat().st_size <= BUILDER.MOST_BYTES


@each_notebook
@pytest.mark.xdist_group("notebooks")
def test_committed_outputs_are_of_the_kinds_that_a_run_gives(source, run_once):
    fresh, _ = run_once(source)
    committed = nbformat.read(source.with_suffix(".ipynb"), as_version=4)

    def kinds(notebook):
        found = []
        for cell, output in outputs(notebook):
            data = output.get("data", {})
            # A bar of progress comes only when something is slow, and is empty afterwards.
            if "data" in output and not any(data.values()):
                continue
            kind = (cell.id, output.output_type, output.get("name"), sorted(data))
            # What a cell prints arrives in one piece or in several, as the machine's speed has it.
            if output.output_type != "stream" or found[-1:] != [kind]:
                found.append(kind)
        return found

    assert kinds(committed) == kinds(fresh), "run `make notebooks`"


@each_notebook
def test_committed_notebook_names_no_folder_of_a_machine(source):
    text = source.with_suffix(".ipynb").read_text(encoding="utf-8")
    assert re.findall(r"/(?:home|root|tmp|Users)/[\w./-]+", text) == []


@pytest.fixture(scope="session")
def quickstart(run_once):
    return run_once(NOTEBOOKS / "01_quickstart.py")


@pytest.mark.xdist_group("notebooks")
class TestQuickstart:
    def test_the_written_file_gives_the_classes(self, quickstart):
        _, folder = quickstart
        onnx.checker.check_model(folder / "efficientnet.onnx", full_check=True)
        session = onnxruntime.InferenceSession(folder / "efficientnet.onnx", providers=["CPUExecutionProvider"])
        (image,) = session.get_inputs()
        assert (image.name, image.shape) == ("image", ["batch", 3, 224, 224])
        for photo, expected in ((data.chelsea(), EGYPTIAN_CAT), (data.coffee(), ESPRESSO)):
            square = ImageOps.fit(Image.fromarray(photo), (224, 224), Image.Resampling.BICUBIC)
            pixels = ((np.asarray(square, dtype=np.float32) - 127) / 128).transpose(2, 0, 1)[None]
            (scores,) = session.run(["scores"], {"image": pixels})
            assert scores.argmax() == expected

    def test_both_programs_print_the_same_classes(self, quickstart):
        notebook, _ = quickstart
        assert re.findall(r"cat: (\w+ \w+)", printed(notebook)) == ["Egyptian cat"] * 2
        assert re.findall(r"coffee: (\w+)", printed(notebook)) == ["espresso"] * 2

    def test_pictures_stand_in_the_notebook(self, quickstart):
        notebook, _ = quickstart
        # GitHub shows no SVG and JupyterLab prefers HTML: so each form is there.
        assert of_magic(notebook, "onnx_graph") == {"text/plain", "text/html", "image/svg+xml", "image/png"}
        assert {"text/plain", "text/html"} <= of_magic(notebook, "onnx_export")
        pictures = [html for html in html_of(notebook) if "data:image/svg+xml;base64," in html]
        assert len(pictures) == 2

    @pytest.mark.parametrize("magic", ["onnx_ops", "onnx_coverage", "onnx_diff"])
    def test_tables_stand_in_the_notebook(self, quickstart, magic):
        notebook, _ = quickstart
        assert {"text/plain", "text/html"} <= of_magic(notebook, magic)

    def test_html_page_needs_no_network_for_its_pictures(self, quickstart):
        notebook, _ = quickstart
        page = BUILDER.to_html(notebook)
        assert re.findall(r"<img[^>]+src=[\"'](?!data:)[^\"']+", page) == []
        assert "Egyptian cat" in page


@pytest.fixture(scope="session")
def torchscript(run_once):
    return run_once(NOTEBOOKS / "02_torchscript.py")


@pytest.mark.xdist_group("notebooks")
class TestTorchScript:
    @pytest.mark.parametrize(("name", "size", "context"), [("vad_16k", 512, 64), ("vad_8k", 256, 32)])
    def test_the_written_files_take_and_give_the_state(self, torchscript, name, size, context):
        _, folder = torchscript
        onnx.checker.check_model(folder / f"{name}.onnx", full_check=True)
        session = onnxruntime.InferenceSession(folder / f"{name}.onnx", providers=["CPUExecutionProvider"])
        shapes = {one.name: one.shape for one in session.get_inputs()}
        assert list(shapes) == ["x", "_context", "_state", "_last_sr", "_last_batch_size"]
        assert (shapes["x"], shapes["_context"][1:], shapes["_state"][1:]) == ([1, size], [context], [1, 128])
        assert [one.name for one in session.get_outputs()] == ["output", *(f"{one}_out" for one in list(shapes)[1:])]

    def test_the_three_programs_hear_the_same(self, torchscript):
        notebook, _ = torchscript
        found = re.findall(r"(\d+) Hz, 200 chunks, .*: ours (\S+), authors' (\S+)", printed(notebook))
        assert [rate for rate, _, _ in found] == ["16000", "8000"]
        assert all(float(difference) < 1e-4 for _, *both in found for difference in both)

    def test_the_steady_file_begins_anew_with_zeros_and_the_frozen_one_forgets(self, torchscript):
        notebook, _ = torchscript
        frozen, steady = map(
            float, re.findall(r"^largest difference from the archive: (\S+)", printed(notebook), re.MULTILINE)
        )
        assert steady < 1e-4 < 0.1 < frozen

    def test_verdicts_are_as_the_text_says(self, torchscript):
        notebook, _ = torchscript
        texts = [output.get("data", {}).get("text/plain", "") for _, output in outputs(notebook)] + [printed(notebook)]
        assert sum(text.count("all outputs match") for text in texts) == 5  # frozen, both rates, the loop, the script
        assert sum(text.count("outputs differ") for text in texts) == 1  # the trace
        assert re.findall(r": (\d+) turns", printed(notebook)) == ["7", "0", "20"]

    def test_pictures_stand_in_the_notebook(self, torchscript):
        notebook, _ = torchscript
        drawings = [html for html in html_of(notebook) if "data:image/svg+xml;base64," in html]
        assert len(drawings) == 4
        plots = [
            output for _, output in outputs(notebook) if set(output.get("data", {})) == {"image/png", "text/plain"}
        ]
        assert len(plots) == 2

    def test_a_missing_package_is_told_with_what_to_do(self, monkeypatch):
        [cell] = [one for one in BUILDER.read(NOTEBOOKS / "02_torchscript.py").cells if "find_spec" in one.source]
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        with pytest.raises(ModuleNotFoundError, match=r"%pip install --no-deps silero-vad==\d"):
            exec(compile(cell.source, "cell", "exec"), {})
