"""Quick capture of a few operators: for local decompositions and for tests of single operators."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

from onnx_lab.capture.converter import FxConverter
from onnx_lab.capture.schema import dtype_of
from onnx_lab.capture.sizes import has_remainder
from onnx_lab.errors import CaptureError
from onnx_lab.program.graph import CapturedGraph, GraphInput, GraphOutput, Ref, Weight
from onnx_lab.program.spec import Dim, ScalarSpec, Spec, SymDim, TensorSpec

# Hints of symbolic dims: large enough and without common factors, so that nothing is equal by chance.
_HINTS = (29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97)
_NAME = re.compile(r"[A-Za-z_]\w*")
_FUNCTIONS = {"floor", "Mod", "Max", "Min", "FloorDiv", "CleanDiv", "CeilToInt", "PythonMod", "ceiling"}


def record(function: Callable[..., Any], specs: Sequence[Spec], *, whole: bool = True) -> CapturedGraph:
    """Run ``function`` on fake values of these specs and return its calls.

    Inputs are called ``in_0``, ``in_1`` and so on, outputs ``out_0``.

    Args:
        function: takes one tensor (or number) per spec, returns a tensor or a tuple of them.
        specs: symbolic dims keep their names in the result.
        whole: composite operators stay one call (then their own kernels are not entered either).

    Raises:
        CaptureError: the calls depend on what a size is divisible by: they would be wrong for other sizes.
    """
    space = _Space(specs)
    values = [space.value(spec) for spec in specs]

    def flat(*given: Any) -> list[Any]:
        return list(torch.utils._pytree.tree_leaves(function(*given)))

    with torch.no_grad():
        module = make_fx(flat, tracing_mode="symbolic", pre_dispatch=whole, _allow_non_fake_inputs=True)(*values)
    space.refuse_divisibility()
    converter = FxConverter(space.rename)
    graph = CapturedGraph("recorded", [], [], {}, [], front_end="recorder")
    names: dict[str, Any] = {}
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    for index, (node, spec) in enumerate(zip(placeholders, specs, strict=True)):
        name = f"in_{index}"
        converter.reserve(name)
        names[node.name] = Ref(name)
        graph.inputs.append(
            GraphInput(name, converter.spec(node.meta["val"]) if isinstance(spec, TensorSpec) else spec)
        )
    for node in module.graph.nodes:
        if node.op == "get_attr":
            tensor = getattr(module, str(node.target))
            if isinstance(tensor, torch.Tensor):
                names[node.name] = Ref(node.name)
                graph.weights[node.name] = Weight(node.name, converter.spec(tensor), tensor, "constant", node.name)  # type: ignore[arg-type]
    graph.calls, outputs = converter.convert(module, names)
    graph.outputs = [GraphOutput(f"out_{index}", value) for index, value in enumerate(outputs)]
    return graph


class _Space:
    """A shape environment in which the specs' dim names are symbols."""

    def __init__(self, specs: Sequence[Spec]) -> None:
        self.environment = ShapeEnv()
        self.mode = FakeTensorMode(shape_env=self.environment, allow_non_fake_inputs=True)
        self._symbols: dict[str, Any] = {}
        self._names: dict[str, str] = {}
        expressions = [dim.expr for spec in specs for dim in _dims(spec)]
        names = {name for text in expressions for name in _NAME.findall(text)} - _FUNCTIONS
        for index, name in enumerate(sorted(names)):
            self._symbols[name] = self._symbol(name, _HINTS[index % len(_HINTS)] + 100 * (index // len(_HINTS)))

    def _symbol(self, name: str, hint: int) -> torch.SymInt:
        source = torch._dynamo.source.ConstantSource(f"__dim_{name}")
        symbol = self.environment.create_symbol(hint, source=source, dynamic_dim=DimDynamic.DYNAMIC)
        self._names[str(symbol)] = name
        made = self.environment.create_symintnode(symbol, hint=hint, source=source)
        assert isinstance(made, torch.SymInt)
        return made

    def rename(self, symbol: sympy.Symbol) -> str:
        return self._names.get(symbol.name, symbol.name)

    def refuse_divisibility(self) -> None:
        """Raises CaptureError when a branch was taken by the remainder of a symbolic size."""
        for guard in self.environment.guards:
            if has_remainder(guard.expr):
                raise CaptureError("the calls depend on the divisibility of a size", seen=str(guard.expr))

    def size(self, dim: Dim) -> Any:
        if isinstance(dim, int):
            return dim
        return self._evaluate(dim.expr)

    def _evaluate(self, text: str) -> Any:
        """A printed expression over dim names as a SymInt."""
        known = {
            "floor": lambda value: value.__floor__() if hasattr(value, "__floor__") else value,
            "Mod": lambda a, b: a % b,
            "PythonMod": lambda a, b: a % b,
            "Max": torch.sym_max,
            "Min": torch.sym_min,
            "FloorDiv": lambda a, b: a // b,
            "CleanDiv": lambda a, b: a // b,
        }
        # The text is one that FxConverter printed: names, numbers and the functions above.
        return eval(text, {"__builtins__": {}}, known | self._symbols)  # noqa: S307  text of our own making

    def value(self, spec: Spec) -> Any:
        if isinstance(spec, ScalarSpec):
            if spec.kind == "int" and spec.expr is not None:
                return self._evaluate(spec.expr)
            return {"int": 2, "float": 2.0, "bool": True}[spec.kind]
        assert isinstance(spec, TensorSpec)
        with self.mode:
            return torch.empty(tuple(self.size(dim) for dim in spec.shape), dtype=dtype_of(spec.dtype))


def _dims(spec: Spec) -> list[SymDim]:
    if isinstance(spec, TensorSpec):
        return [dim for dim in spec.shape if isinstance(dim, SymDim)]
    if isinstance(spec, ScalarSpec) and spec.expr is not None and spec.kind == "int":
        return [SymDim(spec.expr)]
    return []
