"""The quickstart as a person sees it: opened in JupyterLab, run from top to bottom."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

QUICKSTART = Path(__file__).resolve().parents[2] / "notebooks" / "01_quickstart.ipynb"


def output_of(page, magic):
    """The output area of the cell that calls ``magic``; scrolled to, since JupyterLab draws only what is in sight."""
    cell = page.locator(".jp-CodeCell", has=page.locator(".jp-InputArea-editor", has_text=f"%{magic} ")).first
    cell.scroll_into_view_if_needed()
    return cell.locator(".jp-OutputArea")


def picture_is_drawn(picture):
    """An ``img`` that could not be decoded is visible too, with no size of its own."""
    return picture.evaluate("node => node.tagName === 'svg' ? node.getBBox().width > 0 : node.naturalWidth > 100")


def test_quickstart_shows_pictures_and_tables(open_notebook, ask):
    page = open_notebook(QUICKSTART)
    page.run_all(seconds=300)

    for magic in ("onnx_export", "onnx_graph"):
        picture = output_of(page, magic).locator("svg, img").first
        expect(picture).to_be_visible()
        assert picture_is_drawn(picture), magic
    for magic in ("onnx_ops", "onnx_coverage", "onnx_diff"):
        expect(output_of(page, magic).locator("table tr").nth(1)).to_be_visible()

    assert ask("[int(c) for c in from_file.argmax(1)]") == [285, 967]
    expect(page.locator(".jp-OutputArea-output pre", has_text="espresso").last).to_be_attached()
    page.shot_all("quickstart")
    page.is_clean()
