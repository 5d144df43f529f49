"""A real JupyterLab and a real Chromium; a test opens a notebook, runs it, looks, clicks, and asks the kernel.

    def test_something(open_notebook, ask):
        page = open_notebook({"demo": ["x = 1", "x"]})      # or a path of an .ipynb
        page.run_all()
        expect(page.locator(".jp-OutputArea-output")).to_be_visible()
        assert ask("x + 1") == 2
        page.shot("something")

Server and browser start once for all tests of a worker, so further tests cost a few seconds each. ``SHOTS=folder``
keeps the screenshots.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client import BlockingKernelClient
from playwright.sync_api import Browser, Page, Route, expect, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
LOOPBACK = ("http://127.0.0.1", "ws://127.0.0.1", "data:", "blob:")

# Asked of the notebook's model, since the page draws outputs a little later than they arrive.
CODE_CELLS = "window.jupyterapp.shell.currentWidget.content.widgets.filter(cell => cell.model.type === 'code')"
ERRORS = f"{CODE_CELLS}.flatMap(cell => cell.model.outputs.toJSON()).filter(output => output.output_type === 'error')"
FAILED_CELLS = f"() => {ERRORS}.map(output => output.ename + ': ' + output.evalue)"
FINISHED = f"""() => {ERRORS}.length || {CODE_CELLS}.every(
    cell => cell.model.executionCount !== null && cell.model.executionState !== 'running')"""
SCROLL_ON = "n => { const at = n.scrollTop; n.scrollTop += n.clientHeight - 40; return n.scrollTop > at; }"
MOST_SHOTS = 30

# The page and the server share the machine with other tests, so limits are generous; a passing test does not wait.
START_SECONDS, KERNEL_MS = 90, 90_000

CHROMIUM_FLAGS = [
    "--no-sandbox",  # Chromium refuses to run as root with it
    "--disable-dev-shm-usage",  # small in containers
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of this folder are browser tests, on one worker, and skipped where there is no browser, but for CI."""
    for item in items:
        if not item.path.is_relative_to(Path(__file__).parent):
            continue
        item.add_marker(pytest.mark.browser)
        item.add_marker(pytest.mark.xdist_group("browser"))
        if not CHROMIUM and not os.environ.get("CI"):
            item.add_marker(pytest.mark.skip(reason="no chromium on PATH (Debian: apt-get install chromium)"))


def _shots() -> Path | None:
    folder = os.environ.get("SHOTS")
    if not folder:
        return None
    Path(folder).mkdir(parents=True, exist_ok=True)
    return Path(folder)


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab: where it answers, which folder it shows, and where its kernels leave their addresses."""

    url: str
    root: Path
    runtime: Path


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_it_answers(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        with contextlib.suppress(OSError), urllib.request.urlopen(url + "/api/status", timeout=2):
            return
        assert server.poll() is None, "JupyterLab ended: " + log.read_text()
        time.sleep(0.25)
    raise AssertionError("JupyterLab did not start: " + log.read_text())


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """JupyterLab on a free loopback port, with config, data, workspaces and runtime of its own."""
    tmp = tmp_path_factory.mktemp("lab")
    root, log = tmp / "root", tmp / "lab.log"
    root.mkdir()
    # No prompt about news, and no look-up of them in the network.
    (tmp / "config" / "labconfig").mkdir(parents=True)
    (tmp / "config" / "labconfig" / "page_config.json").write_text(
        json.dumps({"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}})
    )
    environment = {
        **os.environ,
        "JUPYTER_CONFIG_DIR": str(tmp / "config"),
        "JUPYTER_RUNTIME_DIR": str(tmp / "run"),
        "JUPYTERLAB_SETTINGS_DIR": str(tmp / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(tmp / "workspaces"),
        "IPYTHONDIR": str(tmp / "ipython"),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
    }
    port = _free_port()
    command = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}"),
        *("--ServerApp.port_retries=0", "--IdentityProvider.token=", f"--ServerApp.root_dir={root}"),
        *("--LabApp.expose_app_in_browser=True", "--LabApp.extension_manager=readonly"),
    ]
    with log.open("wb") as sink, subprocess.Popen(command, env=environment, stdout=sink, stderr=sink) as server:
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_until_it_answers(url, server, log)
            yield Lab(url, root, tmp / "run")
        finally:
            server.terminate()  # which ends its kernels too
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium; Playwright's own browser is never downloaded."""
    if not CHROMIUM:
        pytest.fail("no chromium on PATH (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_FLAGS)
        yield chromium
        chromium.close()


@dataclass
class NotebookPage:
    """A notebook open in the browser. What it does not define is Playwright's ``Page``."""

    page: Page
    outside: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.page, name)

    def gate(self, route: Route) -> None:
        """Requests that leave this machine are refused and noted."""
        if route.request.url.startswith(LOOPBACK):
            route.continue_()
        else:
            self.outside.append(route.request.url)
            route.abort()

    def run_all(self, seconds: float = 180) -> None:
        """Run every cell and wait until the kernel has answered all; a cell that fails fails the test with its text."""
        # The promise of a command may never settle (behind a dialog), and evaluate() has no time limit: hence void.
        self.page.evaluate("() => void window.jupyterapp.commands.execute('notebook:run-all-cells')")
        self.page.wait_for_function(FINISHED, timeout=seconds * 1000)
        assert not (failed := self.page.evaluate(FAILED_CELLS)), "\n".join(failed)

    def shot(self, name: str) -> None:
        """Keep a picture of what is in sight, in the folder that SHOTS names."""
        if folder := _shots():
            self.page.screenshot(path=folder / f"{name}.png")

    def shot_all(self, name: str) -> None:
        """Keep pictures of the whole notebook from top to bottom: ``name_1.png``, ``name_2.png`` ..."""
        if not (folder := _shots()):
            return
        scroller = self.page.locator(".jp-WindowedPanel-outer").first
        scroller.evaluate("node => { node.scrollTop = 0; }")
        for number in range(1, MOST_SHOTS + 1):
            self.page.wait_for_timeout(500)  # cells are drawn when they come into sight
            self.page.screenshot(path=folder / f"{name}_{number}.png")
            if not scroller.evaluate(SCROLL_ON):
                return

    def is_clean(self) -> None:
        """No request left the machine, and no script of the page raised an error."""
        assert not self.outside, self.outside
        assert not self.errors, self.errors


Cells = Path | dict[str, list[str]]


@pytest.fixture
def open_notebook(lab: Lab, browser: Browser) -> Iterator[Callable[[Cells], NotebookPage]]:
    """``open_notebook(path)`` or ``open_notebook({"name": ["cell", ...]})``: the page, with its kernel idle."""
    with contextlib.ExitStack() as opened:

        def open_one(what: Cells) -> NotebookPage:
            target = _put(what, lab.root)
            context = opened.enter_context(browser.new_context(viewport={"width": 1200, "height": 900}))
            page = NotebookPage(context.new_page())
            page.page.route("**/*", page.gate)
            page.page.on("pageerror", lambda error: page.errors.append(str(error)))
            # One document by itself: no workspace restored, no launcher.
            page.goto(f"{lab.url}/doc/tree/{target.name}")
            expect(page.locator(".jp-Notebook .jp-CodeCell").first).to_be_visible(timeout=KERNEL_MS)
            # Run-all before the kernel is there opens a dialog, and the toolbar says "idle" too early.
            page.wait_for_function(
                "() => window.jupyterapp?.commands.isEnabled('notebook:run-all-cells') && "
                "window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'",
                timeout=KERNEL_MS,
            )
            return page

        yield open_one


def _put(what: Cells, root: Path) -> Path:
    """The notebook as a file in the folder that the server shows, without outputs of an earlier run."""
    if isinstance(what, Path):
        name, notebook = what.name, nbformat.read(what, as_version=4)
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
    else:
        [(stem, sources)] = what.items()
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        cells = [nbformat.v4.new_code_cell(source) for source in sources]
        name, notebook = f"{stem}.ipynb", nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    target = root / name
    nbformat.write(notebook, target)
    return target


@pytest.fixture
def ask(lab: Lab) -> Callable[[str], Any]:
    """``ask("expression")``: its value in the kernel of the notebook opened last, over a connection of our own."""

    def value(expression: str) -> Any:
        newest = max(lab.runtime.glob("kernel-*.json"), key=os.path.getmtime)
        client = BlockingKernelClient(connection_file=str(newest))
        client.load_connection_file()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=60)
            reply = client.execute_interactive(
                "", user_expressions={"value": expression}, timeout=60, store_history=False
            )
            answer = reply["content"]["user_expressions"]["value"]
            assert answer["status"] == "ok", answer
            return ast.literal_eval(answer["data"]["text/plain"])
        finally:
            client.stop_channels()

    return value


@pytest.fixture
def ask_until(ask: Callable[[str], Any]) -> Callable[..., None]:
    """``ask_until("expression", wanted)``: wait until the kernel's answer is the one wanted."""

    def wait(expression: str, wanted: Any, seconds: float = 30) -> None:
        end = time.monotonic() + seconds
        while (got := ask(expression)) != wanted and time.monotonic() < end:
            time.sleep(0.2)
        assert got == wanted

    return wait
