"""ONNX operator schemas at one opset, read once: type variables, arities, attributes."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import onnx.defs
import onnx_ir as ir

_ONNX_NAMES = {
    "float": "FLOAT",
    "double": "DOUBLE",
    "uint4": "UINT4",
    "int4": "INT4",
    "string": "STRING",
}


def _element_types(type_strings: tuple[str, ...]) -> frozenset[ir.DataType] | None:
    """The tensor element types allowed, or None when sequences or optionals are."""
    found = set()
    for text in type_strings:
        if not text.startswith("tensor("):
            return None
        name = text[len("tensor(") : -1]
        member = getattr(ir.DataType, _ONNX_NAMES.get(name, name.upper()), None)
        if member is not None:
            found.add(member)
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class OpSchema:
    """What the builder needs of one operator's schema.

    ``inputs`` and ``outputs`` hold a type variable or a literal type for each formal parameter;
    ``allowed`` maps type variables (and literals) to element types, None meaning "not only tensors".
    """

    name: str
    since: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    variadic: bool
    homogeneous: bool
    required_inputs: int
    variadic_outputs: bool
    allowed: dict[str, frozenset[ir.DataType] | None]
    attributes: frozenset[str]
    required_attributes: frozenset[str]

    def input_type(self, index: int) -> str | None:
        """Type variable of the input at ``index``; None when a variadic input is heterogeneous."""
        if index < len(self.inputs) - 1 or (not self.variadic and index < len(self.inputs)):
            return self.inputs[index]
        if self.variadic:
            return self.inputs[-1] if self.homogeneous or index == len(self.inputs) - 1 else None
        return None


@functools.cache
def schema_of(op_type: str, opset: int, domain: str = "") -> OpSchema | None:
    """The schema in force at ``opset``, or None when the operator does not exist there."""
    try:
        found = onnx.defs.get_schema(op_type, opset, domain)
    except onnx.defs.SchemaError:
        return None
    option = onnx.defs.OpSchema.FormalParameterOption
    constraints = {c.type_param_str: _element_types(tuple(c.allowed_type_strs)) for c in found.type_constraints}
    for formal in (*found.inputs, *found.outputs):
        if formal.type_str not in constraints:
            constraints[formal.type_str] = _element_types((formal.type_str,))
    last = found.inputs[-1] if found.inputs else None
    last_out = found.outputs[-1] if found.outputs else None
    return OpSchema(
        name=op_type,
        since=found.since_version,
        inputs=tuple(formal.type_str for formal in found.inputs),
        outputs=tuple(formal.type_str for formal in found.outputs),
        variadic=last is not None and last.option == option.Variadic,
        homogeneous=last is None or last.is_homogeneous,
        required_inputs=found.min_input,
        variadic_outputs=last_out is not None and last_out.option == option.Variadic,
        allowed=constraints,
        attributes=frozenset(found.attributes),
        required_attributes=frozenset(name for name, a in found.attributes.items() if a.required),
    )
