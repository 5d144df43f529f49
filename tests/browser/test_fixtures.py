"""The fixtures themselves, on a notebook of three cells: what the other browser tests rely on."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect


def test_runs_cells_shows_outputs_and_asks_the_kernel(open_notebook, ask, ask_until):
    page = open_notebook({"three_cells": ["x = 6", "x * 7", "import ipywidgets\nipywidgets.IntSlider(x)"]})
    page.run_all()
    expect(page.locator(".jp-OutputArea-output pre", has_text="42")).to_be_visible()
    expect(page.locator(".widget-slider")).to_be_visible(timeout=20_000)
    assert ask("x") == 6
    ask_until("x + 1", 7)
    page.shot("three_cells")
    page.is_clean()


def test_a_failing_cell_fails_with_its_text(open_notebook):
    page = open_notebook({"failing": ["1 / 0"]})
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        page.run_all()


def test_a_request_to_the_network_is_refused_and_noted(open_notebook):
    page = open_notebook({"outside": ["1"]})
    page.evaluate("() => fetch('http://example.invalid/x').catch(() => null)")
    with pytest.raises(AssertionError, match=r"example\.invalid"):
        page.is_clean()
