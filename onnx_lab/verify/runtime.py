"""Sessions of ONNX Runtime on models in memory, and its refusals traced to the user's line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import onnx
import onnx_ir as ir
import onnxruntime as ort

from onnx_lab.errors import RuntimeRejectedError
from onnx_lab.program.source import Source
from onnx_lab.saving import without_weights
from onnx_lab.verify.arrays import feed, feed_initializer

_NODE_NAME = re.compile(r"[Nn]ode:?\s*\(?\s*['\"]?([^\s'\"()]+)['\"]?\)?|Name:'([^']+)'")


class Session:
    """A model loaded by ONNX Runtime on the CPU.

    Args:
        model: the model to run; it is not changed.
        optimize: False keeps every node, so that intermediate values exist.
        extra_outputs: names of intermediate values to make outputs of, after the model's own.

    Raises:
        RuntimeRejectedError: the runtime refuses the model; it names the node and the user's line.
    """

    def __init__(self, model: ir.Model, *, optimize: bool = True, extra_outputs: Sequence[str] = ()) -> None:
        self._model = model
        options = ort.SessionOptions()
        options.log_severity_level = 4
        if not optimize:
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        # The weights are handed over as they lie in memory: the serialized model holds none of them.
        proto, weights = without_weights(model)
        proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in extra_outputs)
        self._weights = [feed_initializer(value) for value in weights]
        options.add_external_initializers([value.name for value in weights], self._weights)
        try:
            self._session = ort.InferenceSession(
                proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # the runtime raises many classes of its own
            raise rejected(model, error, "refuses the model") from error

    @property
    def inputs(self) -> list[str]:
        return [given.name for given in self._session.get_inputs()]

    @property
    def outputs(self) -> list[str]:
        return [made.name for made in self._session.get_outputs()]

    def run(self, feeds: Mapping[str, Any], outputs: Sequence[str] | None = None) -> list[ort.OrtValue]:
        """Run on torch tensors by input name.

        Raises:
            RuntimeRejectedError: a kernel failed; it names the node and the user's line.
        """
        names = list(outputs) if outputs is not None else self.outputs
        values = {name: feed(feeds[name]) for name in self.inputs}
        try:
            found: list[ort.OrtValue] = self._session.run_with_ort_values(names, values)
        except Exception as error:
            raise rejected(self._model, error, "fails while running the model") from error
        return found


def rejected(model: ir.Model, error: Exception, what: str) -> RuntimeRejectedError:
    """The runtime's message with the node and the line that made it."""
    text = " ".join(str(error).split())
    by_name = {node.name: node for node in model.graph.all_nodes()}
    named = [name for match in _NODE_NAME.finditer(text) for name in match.groups() if name in by_name]
    node = by_name[named[0]] if named else None
    return RuntimeRejectedError(
        f"ONNX Runtime {what}" + (f" at node {node.name} ({node.op_type})" if node is not None else ""),
        op=node.metadata_props.get("onnx_lab.op") if node is not None else None,
        source=_source(node),
        seen=text[:300],
        hint="rewrite that line, or lower its operator another way with lowerings={...}",
    )


def _source(node: ir.Node | None) -> Source | None:
    if node is None:
        return None
    sources = node.meta.get("onnx_lab.sources", ())
    return sources[0] if sources else None
