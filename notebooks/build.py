"""Build the notebooks: run each ``NN_name.py`` (py:percent, its magics commented) into an ``.ipynb`` with outputs.

    python notebooks/build.py                     every notebook, written beside its source
    python notebooks/build.py NAME --into FOLDER  run in FOLDER: what the notebook writes, the notebook, and its HTML

The ``.py`` is what people edit and review; the ``.ipynb`` beside it is what Binder, GitHub and JupyterLab open.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).resolve().parent
SECONDS_PER_CELL = 300
# A committed notebook is downloaded by every clone and shown by GitHub only up to a certain size.
MOST_BYTES = 1_500_000
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def sources() -> list[Path]:
    """The notebooks of this folder, in reading order."""
    return sorted(HERE.glob("[0-9][0-9]_*.py"))


def read(source: Path) -> nbformat.NotebookNode:
    """The notebook that a py:percent file describes, without outputs; equal files give equal notebooks."""
    notebook = jupytext.read(source, fmt="py:percent")
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNEL, "language_info": {"name": "python"}})
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for number, cell in enumerate(notebook.cells):
        cell.id = f"{source.stem}-{number:02d}".replace(".", "-")
        cell.metadata.pop("lines_to_next_cell", None)
    return notebook


def run(notebook: nbformat.NotebookNode, folder: Path) -> nbformat.NotebookNode:
    """Execute in ``folder``. Widget state is not stored: a saved notebook with it is a blank page without network."""
    client = NotebookClient(
        notebook,
        timeout=SECONDS_PER_CELL,
        kernel_name=KERNEL["name"],
        resources={"metadata": {"path": str(folder)}},
        store_widget_state=False,
        record_timing=False,
        # The kernel warns on every start that loopback is not encrypted.
        extra_arguments=["--Application.log_level=ERROR"],
    )
    path = os.pathsep.join(filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH")]))
    client.execute(env={**os.environ, "PYTHONPATH": path})
    notebook.metadata.language_info = nbformat.from_dict({"name": "python"})
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in map(_lean, cell.outputs) if output is not None]
    return notebook


def _lean(output: nbformat.NotebookNode) -> nbformat.NotebookNode | None:
    """The output without what only takes room; None when nothing is left."""
    if "data" not in output:
        return output
    if "image/jpeg" in output.data:
        output.data.pop("image/png", None)  # a photograph is given as both
    # A progress bar that has done its work is an empty display; whether there was one depends on the machine.
    return output if any(output.data.values()) else None


def to_html(notebook: nbformat.NotebookNode) -> str:
    """One HTML page with all pictures in it."""
    from nbconvert import HTMLExporter

    body, _ = HTMLExporter(embed_images=True).from_notebook_node(notebook)
    return str(body)


def build(source: Path, folder: Path | None, html: bool) -> Path:
    """Run one notebook and write it; returns where it was written."""
    folder = folder or source.parent
    folder.mkdir(parents=True, exist_ok=True)
    notebook = run(read(source), folder)
    text = nbformat.writes(notebook) + "\n"
    if folder == HERE and len(text) > MOST_BYTES:
        raise SystemExit(f"{source.stem}: {len(text):,} bytes with its outputs, and {MOST_BYTES:,} may be committed")
    target = folder / f"{source.stem}.ipynb"
    target.write_text(text, encoding="utf-8")
    if html:
        target.with_suffix(".html").write_text(to_html(notebook), encoding="utf-8")
    return target


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="notebooks to build, as 01_quickstart; all when none is given")
    parser.add_argument("--into", type=Path, help="run there and write an HTML page too")
    options: Any = parser.parse_args(arguments)
    chosen = [HERE / f"{name}.py" for name in options.names] or sources()
    for source in chosen:
        print(build(source, options.into and options.into.resolve(), html=options.into is not None))


if __name__ == "__main__":
    main()
