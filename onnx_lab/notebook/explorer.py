"""The explorer: choose a model, inputs and options, run, and look at the result in tabs."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

import ipywidgets as widgets

from onnx_lab.errors import OnnxLabError
from onnx_lab.notebook.widgets import GraphWidget
from onnx_lab.opsets import DEFAULT, NEWEST, OLDEST
from onnx_lab.view.html import block, escape

_TABS = ("summary", "ONNX graph", "FX graph", "operators", "differences", "report")
_WIDE = widgets.Layout(width="340px")


class Explorer(widgets.VBox):
    """A form over ``onnx_lab.export``.

    Args:
        namespace: names to choose models and inputs from; default: those of the notebook.
        model, args: put in the form at once, under the names ``model`` and ``input 0`` and so on.
    """

    def __init__(
        self, namespace: Mapping[str, Any] | None = None, *, model: Any = None, args: Any = None, **options: Any
    ) -> None:
        self.result: Any = None
        self._given = {} if model is None else {"model": model}
        self._given |= {f"input {number}": one for number, one in enumerate(args or ())}
        self._namespace = namespace if namespace is not None else _notebook_names()
        self._thread: threading.Thread | None = None
        self._build()
        form = widgets.VBox([self.model_box, self.inputs_box, self.dims_box, self._options, self._actions])
        super().__init__([form, self.tabs], **options)
        self.refresh()

    def _build(self) -> None:
        self.model_box = widgets.Dropdown(description="model", layout=_WIDE)
        self.inputs_box = widgets.SelectMultiple(description="inputs", rows=4, layout=_WIDE)
        self.dims_box = widgets.VBox([])
        self.capture_box = widgets.Dropdown(
            options=["auto", "export", "dynamo", "script", "trace"], description="capture"
        )
        self.opset_box = widgets.Dropdown(options=list(range(OLDEST, NEWEST + 1)), value=DEFAULT, description="opset")
        self.run_button = widgets.Button(description="export", icon="play", button_style="primary")
        self.refresh_button = widgets.Button(description="refresh names", icon="refresh")
        self.status = widgets.HTML()
        self._options = widgets.HBox([self.capture_box, self.opset_box])
        self._actions = widgets.HBox([self.run_button, self.refresh_button, self.status])
        self.outputs = {name: widgets.Output() for name in _TABS}
        self.tabs = widgets.Tab(list(self.outputs.values()))
        for number, name in enumerate(_TABS):
            self.tabs.set_title(number, name)
        self.run_button.on_click(lambda _: self.start())
        self.refresh_button.on_click(lambda _: self.refresh())
        self.model_box.observe(lambda _: self._show_dims(), "value")
        self.inputs_box.observe(lambda _: self._show_dims(), "value")

    # -- choices ------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Read the names anew."""
        torch = sys.modules.get("torch")
        names = {**{k: v for k, v in self._namespace.items() if not k.startswith("_")}, **self._given}
        modules, tensors = [], []
        if torch is not None:
            modules = [name for name, value in names.items() if isinstance(value, torch.nn.Module)]
            tensors = [name for name, value in names.items() if isinstance(value, torch.Tensor)]
        self.model_box.options = modules
        self.inputs_box.options = tensors
        if self.model_box.value is None and modules:
            self.model_box.value = modules[0]
        if "model" in self._given:
            self.model_box.value = "model"
            self.inputs_box.value = tuple(name for name in self._given if name != "model")
        self._show_dims()

    def _value(self, name: str) -> Any:
        return self._given[name] if name in self._given else self._namespace[name]

    def _show_dims(self) -> None:
        """A check box and a name for every axis of every chosen input."""
        rows = []
        for name in self.inputs_box.value:
            cells: list[Any] = [widgets.Label(f"{name} {list(self._value(name).shape)}", layout={"width": "220px"})]
            for axis in range(self._value(name).dim()):
                box = widgets.Checkbox(description=f"axis {axis}", indent=False, layout={"width": "70px"})
                text = widgets.Text(value=f"dim{axis}" if axis else "batch", layout={"width": "90px"}, disabled=True)
                box.observe(lambda change, text=text: setattr(text, "disabled", not change["new"]), "value")
                cells += [box, text]
            rows.append(widgets.HBox(cells))
        self.dims_box.children = rows

    def dynamic_shapes(self) -> Any:
        """What the check boxes ask for, as ``export`` takes it."""
        tree = []
        for row in self.dims_box.children:
            cells = row.children[1:]
            pairs = zip(cells[::2], cells[1::2], strict=True)
            tree.append({axis: text.value for axis, (box, text) in enumerate(pairs) if box.value and text.value})
        return tuple(tree) if any(tree) else None

    # -- running ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Export in a thread, so that the kernel goes on answering; the form is busy meanwhile."""
        if self._thread is not None and self._thread.is_alive():
            return
        self.run_button.disabled = True
        self._say("exporting ...")
        self._thread = threading.Thread(target=self.run, daemon=True)
        self._thread.start()

    def run(self) -> None:
        """Export with the chosen options and fill the tabs."""
        from onnx_lab import export

        try:
            if self.model_box.value is None:
                self._say("no model among the names: make one, then refresh")
                return
            args = tuple(self._value(name) for name in self.inputs_box.value)
            self.result = export(
                self._value(self.model_box.value), args, dynamic_shapes=self.dynamic_shapes(),
                capture=self.capture_box.value, opset_version=self.opset_box.value, on_stage=self._say,
            )  # fmt: skip
            self._fill()
            self._say(f"done in {self.result.report.seconds:.2f} s")
        except OnnxLabError as error:
            self._fail(error)
        finally:
            self.run_button.disabled = False

    def _say(self, text: str) -> None:
        self.status.value = f'<span role="status" aria-live="polite">{escape(text)}</span>'

    def _fail(self, error: OnnxLabError) -> None:
        self._say("failed")
        lines = escape("\n".join(error.lines()))
        name = type(error).__name__
        self._put("summary", {"text/html": block(f"<b>✗ {name}</b><pre>{lines}</pre>"), "text/plain": str(error)})
        self.tabs.selected_index = 0

    def _fill(self) -> None:
        result = self.result
        makers: dict[str, Callable[[], Any]] = {
            "summary": lambda: result,
            "ONNX graph": lambda: GraphWidget(result.graph("onnx")),
            "FX graph": lambda: GraphWidget(result.graph("fx")),
            "operators": result.ops,
            "differences": result.diff,
            "report": lambda: {"text/plain": str(result.report)},
        }
        for name, make in makers.items():
            self._say(f"{name} ...")
            self._put(name, make())

    def _put(self, tab: str, shown: Any) -> None:
        """One displayed object in a tab, also from a thread that no cell runs in."""
        from IPython.core.interactiveshell import InteractiveShell

        if isinstance(shown, dict):
            data, metadata = shown, dict[str, Any]()
        else:
            shell = InteractiveShell.instance() if InteractiveShell.initialized() else None
            if shell is None or shell.display_formatter is None:
                data, metadata = {"text/plain": repr(shown)}, {}
            else:
                data, metadata = shell.display_formatter.format(shown)
        self.outputs[tab].outputs = ({"output_type": "display_data", "data": dict(data), "metadata": dict(metadata)},)

    def static(self) -> str:
        """The current result as HTML without widgets."""
        if self.result is None:
            return block("nothing exported yet")
        return str(self.result._repr_mimebundle_()["text/html"])

    def close(self) -> None:
        """Free the kernel side of the form and everything in it."""
        for child in (*self.outputs.values(), self.tabs, self._options, self._actions):
            child.close()
        super().close()

    def __repr__(self) -> str:
        return f"Explorer({self.model_box.value or 'no model'}; {self.result!r})"


def explorer(namespace: Mapping[str, Any] | None = None, *, model: Any = None, args: Any = None) -> Explorer:
    """A form to choose a model and inputs, export, and look at the result in tabs."""
    return Explorer(namespace, model=model, args=args)


def _notebook_names() -> Mapping[str, Any]:
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    return shell.user_ns if shell is not None else {}
