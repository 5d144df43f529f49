"""Every registered key exists in torch, and its lowering takes exactly the schema's arguments."""

from __future__ import annotations

import inspect
import math
from typing import Any

import pytest
import torch

from onnx_lab import ops
from onnx_lab.capture.schema import resolve
from onnx_lab.lower.registry import REGISTRY
from onnx_lab.program.op_key import OpKey

ops.load()
# Keys without a schema, and operators of packages that need not be installed.
NO_SCHEMA = {"list", "script", "_operator", "math", "torch", "higher_order"}
OPTIONAL = {"torchvision", "transformers", "quantized_decomposed"}
# `self` cannot be read well in a function that is no method, and `from` is a word of the language.
RENAMED = {"self": "x", "from": "from_"}

ENTRIES = sorted(
    ((key, since, function) for key, since, function in REGISTRY.entries() if OpKey(key).namespace not in NO_SCHEMA),
    key=lambda entry: (entry[0], entry[1]),
)


def schema_of(key: str) -> Any:
    if OpKey(key).namespace == "onnx_lab":
        from onnx_lab.capture.recurrent import register

        register()
    if OpKey(key).namespace == "quantized_decomposed":
        import torch.ao.quantization.fx._decomposed  # noqa: F401  registers the namespace
    overload = resolve(OpKey(key))
    return None if overload is None else overload._schema


def test_the_registry_is_not_empty() -> None:
    assert len(ENTRIES) > 300


@pytest.mark.parametrize(("key", "since", "function"), ENTRIES, ids=[f"{key}-{since}" for key, since, _ in ENTRIES])
def test_signature_equals_the_schema(key: str, since: int, function: Any) -> None:
    schema = schema_of(key)
    if schema is None:
        assert OpKey(key).namespace in OPTIONAL, f"{key} does not exist in torch {torch.__version__}"
        return
    parameters = list(inspect.signature(function).parameters.values())[1:]
    if any(p.kind is p.VAR_KEYWORD or p.kind is p.VAR_POSITIONAL for p in parameters):
        pytest.fail(f"{key}: *args or **kwargs hide the arguments")
    by_name = {p.name: p for p in parameters}
    positional = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
    for index, argument in enumerate(schema.arguments):
        name = RENAMED.get(argument.name, argument.name)
        parameter = by_name.pop(argument.name, None) or by_name.pop(name, None)
        assert parameter is not None, f"{key}: no parameter for {argument.name} in {function.__name__}"
        if not argument.kwarg_only:
            assert positional.index(parameter.name) == index, f"{key}: {argument.name} is not argument {index}"
        if argument.has_default_value():
            assert same_default(parameter.default, argument.default_value), f"{key}: default of {argument.name}"
    for left in by_name.values():
        assert left.default is not left.empty, f"{key}: {left.name} is not in the schema and has no default"


def same_default(have: Any, want: Any) -> bool:
    if isinstance(have, str) and have.startswith("torch."):
        return True  # memory formats are numbers in schemas and names here
    if have is inspect.Parameter.empty:
        return False
    if isinstance(want, (list, tuple)) and isinstance(have, (list, tuple)):
        return list(have) == list(want)
    if isinstance(want, (list, tuple)):  # torch repeats a single number for every axis
        return set(want) == {have}
    if isinstance(want, float) and math.isnan(want):
        return bool(math.isnan(have))
    return bool(have == want)
