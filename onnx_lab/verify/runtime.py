"""Sessions of ONNX Runtime on models in memory, and its refusals traced to the user's line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx
import onnx_ir as ir
import onnxruntime as ort

from onnx_lab.errors import RuntimeRejectedError, VerificationError
from onnx_lab.program.source import Source
from onnx_lab.saving import without_weights
from onnx_lab.verify.arrays import feed, feed_initializer

QUIET = 4  # the runtime's messages come as exceptions; its log would repeat them
_TOKEN = re.compile(r"'([^']*)'|\"([^\"]*)\"|\(([^\s()]+)\)|([^\s'\"(),:]+)")
_UNKNOWN_TYPE = re.compile(r"([\w.]*):(\w+)\(-?\d+\) is not a registered")
_RUNNING = re.compile(r"Name:'([^']+)'")  # nested bodies: the innermost comes last
_PLACE = re.compile(r"/\S+\.(?:h|cc):\d+ ")  # the runtime's own source
# What the caller can do about a refusal, by a part of the runtime's message; else the default.
_NO_KERNEL = re.compile(r"Could not find an implementation for (\w+)\(")
_KERNEL_HINT = "the runtime has no CPU kernel for this type: export in float32, or use lowerings={...}"
_INPUT_HINTS = {
    "invalid dimensions for input": "give inputs of the exported sizes, or export with dynamic_shapes",
    "Invalid rank for input": "give inputs of the rank of the example's",
    "Unexpected input data type": "give inputs of the dtypes of the example's",
}
_DEFAULT_HINT = "rewrite that line, or lower its operator another way with lowerings={...}"


class Session:
    """A model loaded by ONNX Runtime on the CPU.

    Args:
        model: the model to run; it is not changed. The runtime makes its own copy of the weights, the only one.
        optimize: False keeps every node, so that intermediate values exist.
        extra_outputs: names of intermediate values to make outputs of, after the model's own.

    Raises:
        RuntimeRejectedError: the runtime refuses the model; it names the node and the user's line.
        SaveError: a weight has no values.
    """

    def __init__(self, model: ir.Model, *, optimize: bool = True, extra_outputs: Sequence[str] = ()) -> None:
        self._model = model
        options = ort.SessionOptions()
        options.log_severity_level = QUIET
        options.use_deterministic_compute = True
        if not optimize:
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        # The serialized model holds no large weight, so that it is small whatever the model's size.
        proto, weights = without_weights(model)
        proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in extra_outputs)
        self._weights = [feed_initializer(value) for value in weights]
        options.add_external_initializers([value.name for value in weights], self._weights)
        try:
            self._session = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # the runtime raises many classes of its own
            raise rejected(model, error, "refuses the model") from error

    @property
    def inputs(self) -> list[str]:
        return [given.name for given in self._session.get_inputs()]

    @property
    def outputs(self) -> list[str]:
        return [made.name for made in self._session.get_outputs()]

    def run(self, feeds: Mapping[str, Any], outputs: Sequence[str] | None = None) -> list[ort.OrtValue]:
        """Run on torch tensors, arrays or numbers by input name.

        Raises:
            RuntimeRejectedError: a kernel failed; it names the node and the user's line.
            VerificationError: an input is missing.
        """
        names = list(outputs) if outputs is not None else self.outputs
        missing = [name for name in self.inputs if name not in feeds]
        if missing:
            raise VerificationError(f"no value for input {missing[0]}", seen=f"values for {', '.join(feeds) or 'none'}")
        values = {name: feed(feeds[name]) for name in self.inputs}
        try:
            found: list[ort.OrtValue] = self._session.run_with_ort_values(names, values)
        except Exception as error:
            raise rejected(self._model, error, "fails while running the model") from error
        return found


def rejected(model: ir.Model, error: Exception, what: str) -> RuntimeRejectedError:
    """The runtime's message with the node, its kernel and the line that made it."""
    text = " ".join(str(error).split())
    seen = _PLACE.sub("", text.rpartition("Status Message: ")[2])[:300]
    for part, hint in _INPUT_HINTS.items():
        if part in text:
            return RuntimeRejectedError("ONNX Runtime does not take these inputs", seen=seen, hint=hint)
    node = node_in(model, text)
    return RuntimeRejectedError(
        f"ONNX Runtime {what}" + ("" if node is None else f" at {_kernel(model, node)}"),
        op=None if node is None else node.metadata_props.get("onnx_lab.op"),
        source=_source(node),
        seen=seen,
        hint=_KERNEL_HINT if _NO_KERNEL.search(text) else _DEFAULT_HINT,
    )


def node_in(model: ir.Model, text: str) -> ir.Node | None:
    """The node that a message of the runtime is about: by its name, else by the name of its output."""
    tokens = [*reversed(_RUNNING.findall(text)), *_tokens(text)]
    unknown = _UNKNOWN_TYPE.search(text)
    by_name = {node.name: node for node in model.graph.all_nodes() if node.name}
    by_output = {value.name: node for node in by_name.values() for value in node.outputs if value.name}
    for table in (by_name, by_output):
        for token in tokens:
            if token in table:
                return table[token]
    if unknown is not None:
        alike = [node for node in by_name.values() if [node.domain, node.op_type] == list(unknown.groups())]
        return alike[0] if alike else None
    # The optimizer extends the names of nodes that it rewrites.
    extended = [name for name in by_name for token in tokens if token.startswith((f"{name}_", f"{name}/"))]
    if extended:
        return by_name[max(extended, key=len)]
    # An operator without a kernel of its own is replaced by its definition, whose nodes have no names.
    kernel = _NO_KERNEL.search(text)
    expanded = [node for node in by_name.values() if kernel is not None and _defined_by(model, node, kernel.group(1))]
    return expanded[0] if expanded else None


def _defined_by(model: ir.Model, node: ir.Node, op_type: str) -> bool:
    """Whether ONNX defines the node's operator by a function that uses ``op_type``."""
    version = model.graph.opset_imports.get(node.domain)
    if version is None or not onnx.defs.has(node.op_type, version, node.domain):
        return False
    schema: Any = onnx.defs.get_schema(node.op_type, version, node.domain)
    bodies = [schema.function_body] if schema.has_function else []
    given = [value for value in node.inputs if value is not None]
    if schema.has_context_dependent_function and all(value.type is not None for value in given):
        types = [ir.to_proto(value).type.SerializeToString() for value in given]
        made = schema.get_context_dependent_function(ir.to_proto(node).SerializeToString(), types)
        bodies.append(onnx.FunctionProto.FromString(made))
    return any(inner.op_type == op_type for body in bodies for inner in body.node)


def _tokens(text: str) -> Iterator[str]:
    """Quoted and parenthesized names first: a bare word may be a node's name by chance."""
    found = [match.groups() for match in _TOKEN.finditer(text)]
    yield from (next(filter(None, groups)) for groups in found if any(groups[:3]))
    yield from (groups[3] for groups in found if groups[3])


def _kernel(model: ir.Model, node: ir.Node) -> str:
    version = model.graph.opset_imports.get(node.domain)
    types = ", ".join(str(value.dtype.name) for value in node.inputs if value is not None and value.dtype is not None)
    domain = f"{node.domain}::" if node.domain else ""
    return f"node {node.name} ({domain}{node.op_type}-{version}{' of ' if types else ''}{types})"


def _source(node: ir.Node | None) -> Source | None:
    if node is None:
        return None
    sources = node.meta.get("onnx_lab.sources", ())
    return sources[0] if sources else None
