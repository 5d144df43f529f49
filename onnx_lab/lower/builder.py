"""Making ONNX nodes: operands, early type check, result types, equal nodes made once, provenance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_lab.errors import InternalLoweringError, UnsupportedCaseError
from onnx_lab.lower.double_precision import spelling
from onnx_lab.lower.kernels import detour
from onnx_lab.lower.provenance import add_source, stamp
from onnx_lab.lower.result_shapes import result_shape, split_shapes
from onnx_lab.lower.schemas import OpSchema, schema_of
from onnx_lab.lower.weights import Constants
from onnx_lab.program.graph import Call

# Result types that an attribute decides: operator -> (attribute, type when it is absent).
_ATTRIBUTE_TYPES = {
    "Cast": ("to", None),
    "Bernoulli": ("dtype", None),
    "EyeLike": ("dtype", None),
    "RandomNormal": ("dtype", ir.DataType.FLOAT),
    "RandomNormalLike": ("dtype", None),
    "RandomUniform": ("dtype", ir.DataType.FLOAT),
    "RandomUniformLike": ("dtype", None),
    "Multinomial": ("dtype", ir.DataType.INT32),
    "HannWindow": ("output_datatype", ir.DataType.FLOAT),
    "HammingWindow": ("output_datatype", ir.DataType.FLOAT),
    "BlackmanWindow": ("output_datatype", ir.DataType.FLOAT),
    "MelWeightMatrix": ("output_datatype", ir.DataType.FLOAT),
}
_TYPE_ATTRIBUTES = frozenset({"to", "dtype", "output_datatype", "output_dtype", "stash_type", "softmax_precision"})
# Never shared between two calls: each execution gives another result, or the node has bodies.
_NOT_SHARED = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"}
    | {"Dropout", "If", "Loop", "Scan"}
)

Operand = Any  # ir.Value | None | bool | int | float | list | np.ndarray


class Scope:
    """The nodes of one graph under construction (the main graph or one body)."""

    def __init__(self, parent: Scope | None = None) -> None:
        self.parent = parent
        self.nodes: list[ir.Node] = []
        self._made: dict[Any, tuple[ir.Value, ...]] = {}

    def find(self, key: Any) -> tuple[ir.Value, ...] | None:
        """An equal node made before in this graph or in one that encloses it."""
        found = self._made.get(key)
        if found is None and self.parent is not None:
            return self.parent.find(key)
        return found

    def add(self, node: ir.Node, key: Any) -> None:
        self.nodes.append(node)
        if key is not None:
            self._made[key] = tuple(node.outputs)


class Builder:
    """``builder.Add(x, 1.0)`` makes an Add node at the target opset and returns its value.

    Python numbers, lists and arrays among the operands become constants; a plain number takes the
    element type of the tensor that shares its type variable. A forbidden element type is refused at
    once. Operators with several results return a tuple when ``outputs=n`` is given.
    """

    def __init__(self, opset: int, constants: Constants) -> None:
        self.opset = opset
        self.constants = constants
        self.scope = Scope()
        self.call: Call = Call("", None)  # type: ignore[arg-type]  # replaced before the first node
        self.lowering_name = ""

    def __getattr__(self, op_type: str) -> Any:
        if not op_type[:1].isupper():
            raise AttributeError(op_type)
        return lambda *operands, **options: self.emit(op_type, operands, **options)

    def emit(
        self, op_type: str, operands: Sequence[Operand], *, domain: str = "", outputs: int = 1, **attributes: Any
    ) -> Any:
        """Make one node.

        Raises:
            UnsupportedCaseError: the operator does not exist at this opset, or refuses an element type.
            InternalLoweringError: attributes or arity do not fit the schema.
        """
        schema = schema_of(op_type, self.opset, domain)
        if schema is None:
            raise self._error(UnsupportedCaseError, f"{op_type} does not exist in opset {self.opset}")
        attributes = {name: value for name, value in attributes.items() if value is not None}
        self._check_form(schema, operands, attributes)
        types, values = self._operands(schema, operands)
        if (instead := spelling(op_type, types.get("T"))) is not None:
            return instead(self, *values, **attributes)
        if op_type == "Expand" and (empty := self._empty_expansion(values)) is not None:
            return empty
        for variable, dtype in types.items():
            reduces = attributes.get("reduction", "none") != "none"
            wide = detour(op_type, self.opset, variable, dtype, schema.allowed.get(variable), reduces)
            if wide is not None:
                return self._by_detour(schema, values, (variable, dtype, wide), domain, outputs, attributes)
        key = self._key(op_type, domain, values, outputs, attributes)
        if key is not None and (found := self.scope.find(key)) is not None:
            add_source(found[0].producer(), self.call)
            return found if outputs > 1 or schema.variadic_outputs else found[0]
        node = self._make(schema, domain, values, types, outputs, attributes)
        self.scope.add(node, key)
        return tuple(node.outputs) if outputs > 1 or schema.variadic_outputs else node.outputs[0]

    def _empty_expansion(self, values: list[ir.Value | None]) -> ir.Value | None:
        """An expansion to no elements as a constant: ONNX Runtime's optimizer takes such a node for a no-op."""
        shape = result_shape("Expand", values, {})
        if shape is None or 0 not in shape or not all(isinstance(dim, int) for dim in shape) or values[0] is None:
            return None
        dtype = values[0].dtype or ir.DataType.FLOAT
        return self.constants.get(np.zeros(tuple(shape), dtype.numpy()), dtype)

    def _by_detour(
        self,
        schema: OpSchema,
        values: list[ir.Value | None],
        change: tuple[str, ir.DataType, ir.DataType],
        domain: str,
        outputs: int,
        attributes: dict[str, Any],
    ) -> Any:
        """The node in a wider element type that the runtime has a kernel for; its results are cast back."""
        variable, narrow, wide = change
        operands = [
            self._as_type(value, wide) if value is not None and schema.input_type(index) == variable else value
            for index, value in enumerate(values)
        ]
        made = self.emit(schema.name, operands, domain=domain, outputs=outputs, **attributes)
        results = made if isinstance(made, tuple) else (made,)
        last = len(schema.outputs) - 1
        narrowed = tuple(
            self._as_type(result, narrow) if schema.outputs[min(index, last)] == variable else result
            for index, result in enumerate(results)
        )
        return narrowed if isinstance(made, tuple) else narrowed[0]

    def _as_type(self, value: ir.Value, dtype: ir.DataType) -> ir.Value:
        constant = self.constants.array(value)
        if constant is not None and constant.size <= 64 and value.dtype != ir.DataType.BFLOAT16:
            return self.constants.get(constant.astype(dtype.numpy()), dtype)
        made: ir.Value = self.emit("Cast", [value], to=dtype)
        return made

    def _check_form(self, schema: OpSchema, operands: Sequence[Operand], attributes: dict[str, Any]) -> None:
        if unknown := set(attributes) - schema.attributes:
            raise self._error(
                UnsupportedCaseError, f"{schema.name}-{schema.since} has no attribute {', '.join(sorted(unknown))}"
            )
        if missing := schema.required_attributes - set(attributes):
            raise self._error(InternalLoweringError, f"{schema.name} needs the attribute {', '.join(sorted(missing))}")
        most = len(schema.inputs) if not schema.variadic else len(operands)
        if not schema.required_inputs <= len(operands) <= most:
            raise self._error(InternalLoweringError, f"{schema.name}-{schema.since} takes no {len(operands)} inputs")

    def _operands(
        self, schema: OpSchema, operands: Sequence[Operand]
    ) -> tuple[dict[str, ir.DataType], list[ir.Value | None]]:
        """Bind type variables by the operands that are values, then make constants of the others."""
        types: dict[str, ir.DataType] = {}
        for index, operand in enumerate(operands):
            variable = schema.input_type(index)
            if isinstance(operand, ir.Value) and variable is not None and operand.dtype is not None:
                self._bind(schema, types, variable, operand.dtype)
        values: list[ir.Value | None] = []
        for index, operand in enumerate(operands):
            if operand is None or isinstance(operand, ir.Value):
                values.append(operand)
                continue
            variable = schema.input_type(index)
            dtype = types.get(variable or "") or _literal(schema, variable)
            value = self.constants.get(operand, dtype)
            if variable is not None:
                self._bind(schema, types, variable, value.dtype or ir.DataType.UNDEFINED)
            values.append(value)
        return types, values

    def _has_detour(self, schema: OpSchema, variable: str, dtype: ir.DataType) -> bool:
        if spelling(schema.name, dtype) is not None:
            return True
        return detour(schema.name, self.opset, variable, dtype, schema.allowed.get(variable)) is not None

    def _bind(self, schema: OpSchema, types: dict[str, ir.DataType], variable: str, dtype: ir.DataType) -> None:
        have = types.setdefault(variable, dtype)
        allowed = schema.allowed.get(variable)
        if allowed is not None and dtype not in allowed and not self._has_detour(schema, variable, dtype):
            raise self._error(
                UnsupportedCaseError, f"{schema.name}-{schema.since} takes no tensor({dtype.name.lower()})"
            )
        if have != dtype and allowed is not None:
            text = f"{schema.name} mixes {have.name.lower()} and {dtype.name.lower()}"
            raise self._error(InternalLoweringError, text)

    def _make(
        self,
        schema: OpSchema,
        domain: str,
        values: list[ir.Value | None],
        types: dict[str, ir.DataType],
        count: int,
        attributes: dict[str, Any],
    ) -> ir.Node:
        node = ir.Node(domain, schema.name, values, _attributes(attributes), num_outputs=count)
        for index, output in enumerate(node.outputs):
            dtype = self._result_type(schema, index, values, types, attributes)
            if dtype is not None:
                output.type = ir.TensorType(dtype)
        if count == 1:
            node.outputs[0].shape = result_shape(schema.name, values, attributes)
        elif schema.name == "Split":
            for output, shape in zip(node.outputs, split_shapes(values, attributes, count), strict=True):
                output.shape = shape
        stamp(node, self.call, self.lowering_name)
        return node

    def _result_type(
        self,
        schema: OpSchema,
        index: int,
        values: list[ir.Value | None],
        types: dict[str, ir.DataType],
        attributes: dict[str, Any],
    ) -> ir.DataType | None:
        if schema.name in _ATTRIBUTE_TYPES:
            name, default = _ATTRIBUTE_TYPES[schema.name]
            first = values[0].dtype if values and values[0] is not None else None
            return ir.DataType(attributes[name]) if name in attributes else default or first
        if schema.name == "ConstantOfShape":
            return attributes["value"].dtype if "value" in attributes else ir.DataType.FLOAT
        variable = schema.outputs[min(index, len(schema.outputs) - 1)]
        if variable in types:
            return types[variable]
        if schema.name in ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"):
            return _quantize_type(schema.name, index, values)
        return _literal(schema, variable)

    def _key(self, op_type: str, domain: str, values: list[ir.Value | None], count: int, attributes: Any) -> Any:
        if op_type in _NOT_SHARED:
            return None
        frozen = []
        for name, value in sorted(attributes.items()):
            if isinstance(value, (ir.TensorProtocol, ir.Graph)):
                return None
            frozen.append((name, tuple(value) if isinstance(value, (list, tuple)) else value))
        return (op_type, domain, count, tuple(map(id, values)), tuple(frozen))

    def _error(self, kind: type[Any], what: str) -> Exception:
        error: Exception = kind(what, op=self.call.key, source=self.call.source, seen=f"while lowering {self.call.key}")
        return error


def _literal(schema: OpSchema, variable: str | None) -> ir.DataType | None:
    """The element type when the schema leaves no choice."""
    allowed = schema.allowed.get(variable or "")
    return next(iter(allowed)) if allowed is not None and len(allowed) == 1 else None


def _quantize_type(op_type: str, index: int, values: list[ir.Value | None]) -> ir.DataType | None:
    if op_type == "DequantizeLinear":
        return values[1].dtype if values[1] is not None else None
    zero_point = values[2] if len(values) > 2 else None
    return zero_point.dtype if zero_point is not None else ir.DataType.UINT8


def _attributes(attributes: dict[str, Any]) -> list[ir.Attr]:
    return [_attribute(name, value) for name, value in attributes.items()]


def _attribute(name: str, value: Any) -> ir.Attr:
    if name in _TYPE_ATTRIBUTES:
        return ir.AttrInt64(name, int(value))
    if isinstance(value, (bool, int, np.integer)):
        return ir.AttrInt64(name, int(value))
    if isinstance(value, float):
        return ir.AttrFloat32(name, value)
    if isinstance(value, str):
        return ir.AttrString(name, value)
    if isinstance(value, ir.Graph):
        return ir.AttrGraph(name, value)
    if isinstance(value, ir.TensorProtocol):
        return ir.AttrTensor(name, value)
    items = list(value)
    if all(isinstance(item, str) for item in items) and items:
        return ir.AttrStrings(name, items)
    if any(isinstance(item, float) for item in items):
        return ir.AttrFloat32s(name, [float(item) for item in items])
    return ir.AttrInt64s(name, [int(item) for item in items])
