"""The magics in a real shell: results, options, errors in four lines, completion, unloading."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("IPython")
from IPython.core.interactiveshell import InteractiveShell


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    ip = InteractiveShell()
    ip.run_line_magic("load_ext", "onnx_lab")
    ip.run_cell(
        "import torch; model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()); x = torch.randn(2, 4)"
    )
    yield ip
    ip.run_line_magic("unload_ext", "onnx_lab")
    with contextlib.suppress(AttributeError):
        ip.history_manager.end_session()
    InteractiveShell.clear_instance()


def run(ip: InteractiveShell, cell: str) -> Any:
    done = ip.run_cell(cell)
    assert done.success, done.error_in_exec
    return done.result


def test_export_writes_and_returns(shell: InteractiveShell, tmp_path: Path) -> None:
    result = run(shell, "%onnx_export model x --dynamic 0=batch -o out.onnx --verify")
    assert (tmp_path / "out.onnx").stat().st_size > 0
    assert [getattr(dim, "value", dim) for dim in result.model.graph.inputs[0].shape] == ["batch", 4]


def test_results_can_be_assigned_and_are_remembered(shell: InteractiveShell) -> None:
    run(shell, "r = %onnx_export model (x,) --opset 20")
    assert shell.user_ns["r"].opset == 20
    assert list(run(shell, "%onnx_ops")["op"]) == ["aten::linear", "aten::relu"]
    assert run(shell, "%onnx_graph --kind both").visible == 8
    assert set(run(shell, "%onnx_diff r")["status"]) == {"match"}
    assert run(shell, "%onnx_coverage model x").supported


def test_a_semicolon_silences_and_keeps_the_value(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    run(shell, "silent = %onnx_export model x;")
    assert shell.user_ns["silent"].opset == 23
    for cell, shown in (("%onnx_ops silent;", False), ("%onnx_ops silent", True), ("%onnx_ops silent;\n'last'", True)):
        capsys.readouterr()
        shell.run_cell(cell, store_history=True)
        assert bool(capsys.readouterr().out.strip()) is shown, cell


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("%onnx_export modl x", "did you mean 'model'"),
        ("%onnx_export model x --opst 3", "did you mean --opset"),
        ("%onnx_export model x --opset 99", "cannot be written"),
        ("%onnx_export model", "does not take these inputs"),
        ("%onnx_export model x --dynamic 5=b", "no axis 5"),
        ("%onnx_ops model", "takes a result of %onnx_export, and model is none"),
        ("%onnx_diff model x", "takes a result of %onnx_export, and model is none"),
    ],
)
def test_mistakes_are_told_in_a_few_lines(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str], line: str, text: str
) -> None:
    done = shell.run_cell(line)
    captured = capsys.readouterr()
    shown = captured.out + captured.err
    assert not done.success
    assert text in shown
    assert len(shown.strip().splitlines()) <= 5


def test_completion_of_options_values_and_names(shell: InteractiveShell) -> None:
    from types import SimpleNamespace

    from onnx_lab.notebook.completion import complete

    def found(text: str) -> list[str]:
        return complete(shell, SimpleNamespace(text_until_cursor=text))

    assert found("%onnx_export model x --op") == ["--opset"]
    assert "dynamo" in found("%onnx_export model x --capture ")
    assert found("%onnx_export mo") == ["model"]
    assert found("%onnx_export model ")[0] == "x"


def test_a_result_shows_text_and_html(shell: InteractiveShell) -> None:
    result = run(shell, "%onnx_export model x")
    data, _ = shell.display_formatter.format(result)
    assert "ExportResult" in data["text/plain"]
    assert "<script" not in data["text/html"]
    assert "data:image/svg+xml" in data["text/html"]


def test_loading_twice_and_unloading(shell: InteractiveShell) -> None:
    from onnx_lab.notebook import extension

    extension.load(shell)
    extension.unload(shell)
    assert "onnx_export" not in shell.magics_manager.magics["line"]
    extension.load(shell)
    assert "onnx_export" in shell.magics_manager.magics["line"]


def test_the_explorer_exports_what_is_chosen(shell: InteractiveShell) -> None:
    pytest.importorskip("ipywidgets")
    from onnx_lab.notebook.explorer import Explorer

    form = Explorer(shell.user_ns)
    form.inputs_box.value = ("x",)
    form.dims_box.children[0].children[1].value = True
    assert form.dynamic_shapes() == ({0: "batch"},)
    form.run()
    assert form.result is not None, form.outputs["summary"].outputs
    assert form.result.opset == 23
    assert all(output.outputs for output in form.outputs.values())
    assert "data:image/svg+xml" in form.static()
    form.close()


def test_the_graph_widget_folds_on_a_click(shell: InteractiveShell) -> None:
    pytest.importorskip("anywidget")
    from onnx_lab.notebook.widgets import GraphWidget

    widget = GraphWidget(run(shell, "%onnx_export model x").graph("onnx"))
    before = widget.svg
    widget._receive(None, {"type": "choose", "id": "mod:0"}, None)
    assert widget.svg != before
    data, _ = widget._repr_mimebundle_()
    assert {"text/plain", "image/svg+xml", "application/vnd.jupyter.widget-view+json"} <= set(data)
