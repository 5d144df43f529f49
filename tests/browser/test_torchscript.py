"""The tutorial on TorchScript archives as a person sees it: opened in JupyterLab, run from top to bottom."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

TUTORIAL = Path(__file__).resolve().parents[2] / "notebooks" / "02_torchscript.ipynb"


def output_of(page, code):
    """The output area of the cell with ``code``; scrolled to, since JupyterLab draws only what is in sight."""
    cell = page.locator(".jp-CodeCell", has=page.locator(".jp-InputArea-editor", has_text=code)).first
    cell.scroll_into_view_if_needed()
    return cell.locator(".jp-OutputArea")


def picture_is_drawn(picture):
    """An ``img`` that could not be decoded is visible too, with no size of its own."""
    return picture.evaluate("node => node.tagName === 'svg' ? node.getBBox().width > 0 : node.naturalWidth > 100")


def test_tutorial_shows_pictures_and_tables(open_notebook, ask):
    page = open_notebook(TUTORIAL)
    page.run_all(seconds=300)

    for code in ("%onnx_export", "draw(16000)", "draw(8000)", "at_16k.graph", "steady.graph", "loop.graph"):
        picture = output_of(page, code).locator("svg, img").first
        expect(picture).to_be_visible()
        assert picture_is_drawn(picture), code
    for code in ("steady.ops()", "steady.diff()", "traced.frozen()", "kept.modes()"):
        expect(output_of(page, code).locator("table tr").nth(1)).to_be_visible()

    assert ask("bool(max(abs(one['our file'] - one['archive']).max() for one in heard.values()) < 1e-4)") is True
    page.shot_all("torchscript")
    page.is_clean()
