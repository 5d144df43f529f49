"""A call without a lowering is decomposed: that one call, on its own specs, one step at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from onnx_lab.program.graph import Call, CapturedGraph, GraphInput, GraphOutput, Ref, map_refs, refs_in
from onnx_lab.program.op_key import OpKey
from onnx_lab.program.spec import DType, Spec, TensorSpec

_CACHE: dict[Any, CapturedGraph | None] = {}


def decomposition_of(call: Call, spec_of: Callable[[str], Spec]) -> CapturedGraph | None:
    """The calls that compute ``call``, or None when there is no decomposition.

    The inputs of the graph are called as the values that ``call`` reads, its outputs are aligned with
    the results of ``call``, and the names of its calls start with that of ``call``.
    """
    names = list(dict.fromkeys(ref.name for ref in refs_in((call.args, call.kwargs))))
    specs = [spec_of(name) for name in names]
    if any(isinstance(spec, tuple) or spec is None for spec in specs):
        return None
    positions = {name: index for index, name in enumerate(names)}
    form = map_refs((call.args, call.kwargs), lambda ref: ("ref", positions[ref.name]))
    key = (call.key, repr(form), repr(specs))
    if key not in _CACHE:
        _CACHE[key] = _record(call, names, specs)
    found = _CACHE[key]
    return None if found is None else _renamed(found, call, names)


def _record(call: Call, names: list[str], specs: list[Spec]) -> CapturedGraph | None:
    from onnx_lab.capture.functionalize import drop_dead_calls, functionalize
    from onnx_lab.capture.recorder import record

    function, composite = _function(call.key)
    if function is None:
        return None
    positions = {name: index for index, name in enumerate(names)}

    def run(*given: Any) -> Any:
        args, kwargs = _to_torch(map_refs((call.args, call.kwargs), lambda ref: given[positions[ref.name]]))
        return function(*args, **kwargs)

    try:
        graph = record(run, specs, whole=not composite)
    except Exception:  # noqa: BLE001  whatever a decomposition raises, the operator is then reported as missing
        return None
    functionalize(graph)
    drop_dead_calls(graph)
    if any(inner.key == call.key for inner in graph.calls) or not _fits(graph, call.spec):
        return None
    return graph


def _function(key: str) -> tuple[Callable[..., Any] | None, bool]:
    """Torch's decomposition of an operator: its table first, then the composite kernel (True for that)."""
    import torch
    from torch._decomp import decomposition_table

    from onnx_lab.capture.schema import resolve

    overload = resolve(key)
    if overload is None:
        return None, False
    if overload in decomposition_table:
        return decomposition_table[overload], False
    if overload._can_decompose():
        return overload.decompose, True
    if overload in torch._decomp.core_aten_decompositions():
        return torch._decomp.core_aten_decompositions()[overload], False
    return None, False


def _to_torch(value: Any) -> Any:
    import torch

    if isinstance(value, DType):
        return getattr(torch, value.name)
    if isinstance(value, (list, tuple)):
        return type(value)(_to_torch(item) for item in value)
    if isinstance(value, dict):
        return {key: _to_torch(item) for key, item in value.items()}
    if isinstance(value, str) and value.startswith("torch."):
        return getattr(torch, value.removeprefix("torch."))
    return value


def _fits(graph: CapturedGraph, spec: Spec) -> bool:
    """As many results as the call has, of its dtypes."""
    expected = [one for one in (spec if isinstance(spec, tuple) else (spec,)) if one is not None]
    if len(graph.outputs) != len(expected):
        return False
    made = graph.specs()
    for output, one in zip(graph.outputs, expected, strict=True):
        have = made.get(output.value.name) if isinstance(output.value, Ref) else None
        if isinstance(have, TensorSpec) and isinstance(one, TensorSpec) and have.dtype != one.dtype:
            return False
    return True


def _renamed(graph: CapturedGraph, call: Call, names: list[str]) -> CapturedGraph:
    """A copy for one call: outer names for the inputs, the call's name before every other."""
    table = {f"in_{index}": name for index, name in enumerate(names)}
    table |= {inner.name: f"{call.name}_{inner.name}" for inner in graph.calls}
    table |= {name: f"{call.name}_{name}" for name in graph.weights}

    def move(ref: Ref) -> Ref:
        return Ref(table.get(ref.name, ref.name))

    source = call.source.decomposed(call.key)
    calls = [
        replace(
            inner,
            name=table[inner.name],
            key=OpKey(inner.key),
            args=map_refs(inner.args, move),
            kwargs=map_refs(inner.kwargs, move),
            source=source,
        )
        for inner in graph.calls
    ]
    weights = {
        table[name]: replace(weight, name=table[name], target=table[name]) for name, weight in graph.weights.items()
    }
    inputs = [GraphInput(name, given.spec) for name, given in zip(names, graph.inputs, strict=True)]
    outputs = [GraphOutput(one.name, map_refs(one.value, move)) for one in graph.outputs]
    return CapturedGraph(call.key, inputs, outputs, weights, calls, front_end="decomposition")
