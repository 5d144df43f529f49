"""The explorer and the graph widget, used with the mouse in JupyterLab."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

SETUP = """import torch, onnx_lab
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = torch.nn.LayerNorm(8), torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)
    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.Sequential(*(Block() for _ in range(3)))
    def forward(self, x):
        if x.shape[-1] != 8:
            raise ValueError("eight features are needed")
        return self.blocks(x)
net, x, narrow = Net().eval(), torch.randn(4, 8), torch.randn(4, 3)"""


@pytest.fixture
def explorer_page(open_notebook):
    page = open_notebook({"explorer": [SETUP, "form = onnx_lab.explorer()\nform"]})
    page.run_all()
    expect(page.get_by_role("button", name="export")).to_be_visible(timeout=30_000)
    return page


def choose(page, *inputs):
    page.locator(".widget-dropdown", has_text="model").locator("select").select_option("net")
    page.locator(".widget-select-multiple", has_text="inputs").locator("select").select_option(list(inputs))


def view_box(graph):
    """What part of the drawing is in sight: x, y, width, height."""
    return [float(number) for number in graph.locator("svg").get_attribute("viewBox").split()]


def test_export_by_hand_and_look_at_every_tab(explorer_page, ask):
    page = explorer_page
    choose(page, "x")
    page.locator(".widget-checkbox", has_text="axis 0").locator("input").check()
    page.get_by_role("button", name="export").click()
    expect(page.get_by_role("status").last).to_contain_text("done in", timeout=60_000)
    assert ask("[[str(d) for d in v.shape] for v in form.result.model.graph.inputs]") == [["batch", "8"]]
    tabs = page.locator(".lm-TabBar-tab, .p-TabBar-tab")
    for name, shown in {
        "summary": "table, pre, svg, img",
        "ONNX graph": ".onnx-lab-graph svg",
        "FX graph": ".onnx-lab-graph svg",
        "operators": "table tr",
        "differences": "table tr",
        "report": "pre",
    }.items():
        tabs.filter(has_text=name).last.click()
        visible = page.locator(".widget-tab-contents").locator(shown).locator("visible=true").first
        expect(visible).to_be_visible(timeout=20_000)
        page.shot(f"explorer_{name.replace(' ', '_')}")
    page.is_clean()


def test_a_failed_export_shows_the_error_in_the_form(explorer_page, ask):
    page = explorer_page
    choose(page, "narrow")
    page.get_by_role("button", name="export").click()
    expect(page.get_by_role("status").last).to_contain_text("failed", timeout=60_000)
    expect(page.locator(".widget-tab-contents pre").first).to_contain_text("eight features are needed")
    page.shot("explorer_failed")
    choose(page, "x")
    page.get_by_role("button", name="export").click()
    expect(page.get_by_role("status").last).to_contain_text("done in", timeout=60_000)
    assert ask("form.result is not None")
    page.is_clean()


def test_the_graph_widget_folds_searches_and_zooms(open_notebook, ask_until):
    show = "widget = result.graph(opened=['blocks']).explore()\nwidget"
    page = open_notebook({"graph": [SETUP, "result = onnx_lab.export(net, (x,))", show]})
    page.run_all()
    graph = page.locator(".onnx-lab-graph")
    graph.scroll_into_view_if_needed()
    module = graph.locator("g.node", has_text="0: Block")
    expect(module).to_be_visible(timeout=20_000)
    page.shot("graph_folded")
    module.click()
    ask_until("'blocks.0' in widget.drawing.opened", True)
    expect(graph.locator("g.node", has_text="LayerNormalization")).to_be_visible(timeout=30_000)
    page.shot("graph_unfolded")
    graph.get_by_role("searchbox").fill("Gemm")
    expect(graph.locator("g.node.hit")).to_have_count(2)
    page.shot("graph_search")
    before = view_box(graph)
    graph.get_by_role("button", name="zoom in").click()
    assert view_box(graph)[2] < before[2]
    graph.get_by_role("button", name="fit").click()
    assert view_box(graph) == before
    page.is_clean()
