"""ExportResult: the model, where each node came from, and the tools to look at it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from onnx_lab.capture.captured import Capture
from onnx_lab.program.graph import CapturedGraph
from onnx_lab.program.report import Report

if TYPE_CHECKING:
    import onnx
    import pandas as pd

    from onnx_lab.verify.outputs import VerifyResult
    from onnx_lab.view.drawing import Drawing

_KINDS = ("onnx", "fx", "both")


@dataclass(slots=True)
class ExportResult:
    """What ``onnx_lab.export`` returns.

    Attributes:
        model: the ONNX model; its weights share the module's memory.
        values: ONNX value name of each captured value, None when it has none.
        report: stages, tries and notes of this export.
        args, kwargs: the example inputs.
    """

    model: ir.Model
    _capture: Capture = field(repr=False)
    values: dict[str, str | None] = field(repr=False)
    report: Report = field(repr=False)
    args: tuple[Any, ...] = field(repr=False)
    kwargs: dict[str, Any] = field(repr=False)

    # -- what was captured --------------------------------------------------------------------------

    @property
    def captured(self) -> CapturedGraph:
        """The captured graph after functionalization: names are those of the FX nodes."""
        return self._capture.graph

    @property
    def exported_program(self) -> Any:
        """The ``torch.export.ExportedProgram`` behind the FX graph."""
        return self._capture.exported_program

    @property
    def module(self) -> Any:
        """The model that was exported."""
        return self._capture.model

    @property
    def opset(self) -> int:
        return self.model.graph.opset_imports[""]

    @property
    def initial_state(self) -> dict[str, Any]:
        """With ``state="io"``: what the model's state was at the export, as arrays by input name.

        The outputs that follow the model's own are the state after the call, in the order of these inputs.
        """
        from onnx_lab.verify.arrays import plain

        state = self._capture.state
        return {} if state is None else {name: plain(value).array for name, value in state.initial.items()}

    # -- files --------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], external_data: bool | None = None) -> list[Path]:
        """Write the model; what was at ``path`` is replaced only when all is written.

        Args:
            path: the ``.onnx`` file.
            external_data: True puts the weights into ``<path>.data``; None does so only above 2 GB.

        Returns:
            The files written.

        Raises:
            SaveError: they could not be written; what was there before is untouched.
        """
        from onnx_lab.saving import save_model

        return save_model(self.model, path, external_data=external_data)

    def model_proto(self) -> onnx.ModelProto:
        """The model as ``onnx.ModelProto`` (copies the weights)."""
        from onnx_lab.saving import model_proto

        return model_proto(self.model)

    # -- comparing ----------------------------------------------------------------------------------

    def verify(
        self,
        args: Any = None,
        kwargs: Mapping[str, Any] | None = None,
        *,
        more: Sequence[tuple[tuple[Any, ...], Mapping[str, Any]]] = (),
        rtol: float | None = None,
        atol: float | None = None,
    ) -> VerifyResult:
        """Run the model in ONNX Runtime and compare every output with eager PyTorch.

        Args:
            args, kwargs: inputs; default: the example's.
            more: further ``(args, kwargs)`` pairs to compare on.
            rtol, atol: tolerances; default: by dtype, integers and bools exact.

        Raises:
            InputError: the inputs do not have the structure of the example's.
            RuntimeRejectedError: ONNX Runtime refuses the model or fails.
        """
        from onnx_lab.verify.outputs import verify_outputs

        pairs = [self._inputs(args, kwargs), *[self._inputs(a, k) for a, k in more]]
        return verify_outputs(self._capture, self.model, pairs, rtol=rtol, atol=atol)

    def diff(self, args: Any = None, kwargs: Mapping[str, Any] | None = None, **options: Any) -> pd.DataFrame:
        """One row per captured call: how far its value in ONNX Runtime is from PyTorch's.

        Takes inputs as ``verify`` does; see ``onnx_lab.verify.diff.diff`` for columns and options.
        """
        from onnx_lab.verify.diff import diff
        from onnx_lab.view.diff_frame import as_diff_frame

        given, keywords = self._inputs(args, kwargs)
        feeds = self._capture.feeds(given, keywords)
        return as_diff_frame(diff(self.captured, self.model, self.values, feeds, **options))

    def _inputs(self, args: Any, kwargs: Mapping[str, Any] | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if args is None and kwargs is None:
            return self.args, self.kwargs
        given = () if args is None else tuple(args) if isinstance(args, (tuple, list)) else (args,)
        return given, dict(kwargs or {})

    # -- looking ------------------------------------------------------------------------------------

    def ops(self) -> pd.DataFrame:
        """One row per captured operator: count, how it was lowered, modules, first source line."""
        from onnx_lab.view.tables import ops_table

        return ops_table(self.captured, self.model, self.report)

    def unsupported(self) -> pd.DataFrame:
        """Operators without a lowering: empty for a result; a failed export carries its own."""
        from onnx_lab.view.tables import unsupported_table

        return unsupported_table(self.report.unsupported)

    def modes(self) -> pd.DataFrame:
        """One row per submodule whose training flag or behaviour is not that of the mode asked for."""
        from onnx_lab.view.tables import modes_table

        return modes_table(self.captured, self.report)

    def frozen(self) -> pd.DataFrame:
        """What tracing fixed at the example's values: what, line, code, how it was found, the capture that keeps it."""
        from onnx_lab.view.tables import frozen_table

        return frozen_table(self.report)

    def nodes(self) -> pd.DataFrame:
        """One row per ONNX node, with the module, call and line it came from."""
        from onnx_lab.view.tables import nodes_table

        return nodes_table(self.model)

    def graph(self, kind: str = "onnx", **options: Any) -> Drawing:
        """A drawing folded by module: ``kind`` is ``onnx``, ``fx`` or ``both``.

        Options are those of ``onnx_lab.view.drawing.Drawing``: ``depth``, ``opened``, ``focus``.
        """
        from onnx_lab.errors import InputError
        from onnx_lab.view.drawing import Drawing

        if kind not in _KINDS:
            raise InputError(f"graph kind {kind!r} is not known", hint=f"use one of {', '.join(_KINDS)}")
        return Drawing.of(self, kind=kind, **options)

    def summary(self) -> str:
        """The result in at most fifteen lines of text."""
        from onnx_lab.view.text import result_text

        return result_text(self)

    def __repr__(self) -> str:
        graph = self.model.graph
        inputs, outputs = (", ".join(str(value.name) for value in values) for values in (graph.inputs, graph.outputs))
        return f"ExportResult({self.captured.name}: {inputs} -> {outputs}; opset {self.opset}, {len(graph)} nodes)"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        from onnx_lab.view.html import result_bundle

        return result_bundle(self)
