"""Walk a captured graph, run one lowering per call, and collect what cannot be lowered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx_ir as ir

from onnx_lab.errors import InternalLoweringError, LoweringError, UnsupportedCaseError
from onnx_lab.lower import dtypes
from onnx_lab.lower.assemble import assemble
from onnx_lab.lower.builder import Builder, Scope
from onnx_lab.lower.complex import Complex, contains_complex, imag_of, is_complex, part, real_of, split
from onnx_lab.lower.context import Context
from onnx_lab.lower.decompose import decomposition_of
from onnx_lab.lower.missing import MissingCalls
from onnx_lab.lower.registry import COMPLEX_REGISTRY, PART_WISE, REGISTRY, Lowering, Registry
from onnx_lab.lower.results import bind_result, placeholder
from onnx_lab.lower.weights import Constants, Weights
from onnx_lab.program.graph import Call, CapturedGraph, Ref, Region, walk_calls
from onnx_lab.program.report import Report
from onnx_lab.program.spec import DType, ScalarSpec, Spec, SymDim, TensorSpec

GETITEM = "_operator::getitem"
_DEEPEST_DECOMPOSITION = 12


class Lowerer:
    """Turns one functionalized CapturedGraph into an ``ir.Model``.

    Args:
        graph: without writes and aliases.
        opset: target version of the default ONNX domain.
        overrides: lowerings for this export only, by operator key; they come first.
        report: receives decompositions and missing operators.
    """

    def __init__(
        self,
        graph: CapturedGraph,
        opset: int,
        *,
        overrides: Mapping[str, Lowering] | None = None,
        report: Report | None = None,
        registry: Registry = REGISTRY,
    ) -> None:
        self.graph = graph
        self.registry = registry
        self.overrides = overrides or {}
        self.report = report if report is not None else Report()
        self.weights = Weights()
        self.builder = Builder(opset, Constants())
        self.env: dict[str, Any] = {}
        self.inside: dict[str, Any] = {}  # as env, of the bodies of branches and loops that are done
        self.specs: dict[str, Spec] = {}
        self.inputs: list[ir.Value] = []
        self.missing = MissingCalls(registry)
        self._carriers: dict[str, tuple[ir.Value, int | None]] = {}
        self._uses: dict[str, set[int] | None] = {}
        self._depth = 0

    # -- the whole graph ----------------------------------------------------------------------------

    def run(self) -> tuple[ir.Model, dict[str, str | None]]:
        """Lower everything.

        Returns:
            The model, and the ONNX value name of each captured value (None when it has none).

        Raises:
            UnsupportedOperatorsError: operators without a lowering, all of them.
            UnsupportedCaseError: the only trouble is one case that a lowering refuses.
        """
        self._lower_all()
        if self.missing.rows:
            self.report.unsupported = self.missing.table()
            raise self.missing.error(self.report)
        return assemble(self)

    def survey(self) -> MissingCalls:
        """Lower everything for what can be learned from it; nothing is raised for missing operators."""
        self._lower_all()
        self.report.unsupported = self.missing.table()
        return self.missing

    def _lower_all(self) -> None:
        self._count_uses()
        for given in self.graph.inputs:
            value = _input_value(given.name, given.spec, given.axis_names)
            self.inputs.append(value)
            self.env[given.name] = split(self.builder, value) if is_complex(given.spec) else value
            self.specs[given.name] = given.spec
            self._carry(given.spec, value)
        for name, weight in self.graph.weights.items():
            self.specs[name] = weight.spec
        for call in self.graph.calls:
            self.lower_call(call)

    def _count_uses(self) -> None:
        """Which results of calls with several results are read; None means all of them."""
        for call in self.graph.all_calls():
            self._note_uses(call)
        for output in self.graph.outputs:
            if isinstance(output.value, Ref):
                self._uses[output.value.name] = None

    def _note_uses(self, call: Call) -> None:
        if call.key == GETITEM and isinstance(call.args[0], Ref):
            found = self._uses.setdefault(call.args[0].name, set())
            if found is not None:
                found.add(call.args[1])
        else:
            self._uses.update((ref.name, None) for ref in call.refs())

    def result_is_used(self, call: Call, index: int) -> bool:
        used = self._uses.get(call.name, set())
        return used is None or index in used

    # -- one call -----------------------------------------------------------------------------------

    def lower_call(self, call: Call) -> None:
        """Lower one call; what it misses is recorded and a placeholder stands for its result."""
        self.specs[call.name] = call.spec
        if call.key == GETITEM:
            self.env[call.name] = self.argument(call.args[0])[call.args[1]]
            return
        function = self._function_of(call)
        error: LoweringError | None = None
        if function is not None:
            try:
                self._bind(call, self._run(function, call))
                return
            except UnsupportedCaseError as refused:
                error = refused
        before = self.missing.mark()
        try:
            final = isinstance(error, UnsupportedCaseError) and error.final
            if not final and self._lower_decomposed(call) and (error is None or self.missing.mark() == before):
                return
        except UnsupportedCaseError as refused:
            error = error or refused
        # A refusal tells more than what its decomposition would have missed.
        self.missing.reset(before)
        self.missing.add(call, self.specs, error)
        self.env[call.name] = placeholder(call.spec, call.name)

    def _run(self, function: Lowering, call: Call) -> Any:
        outer = (self.builder.call, self.builder.lowering_name)
        self.builder.call, self.builder.lowering_name = call, getattr(function, "__name__", "lowering")
        try:
            args, kwargs = self.argument(call.args), self.argument(call.kwargs)
            context = Context(self, self.builder, call)
            if call.key in PART_WISE and contains_complex((args, kwargs)):
                return self._run_by_parts(function, context, args, kwargs)
            return function(context, *args, *call.regions, **kwargs)
        except LoweringError:
            raise
        except Exception as error:
            raise InternalLoweringError(
                f"the lowering of {call.key} failed: {type(error).__name__}: {error}",
                op=call.key,
                source=call.source,
                seen=", ".join(str(self.specs.get(ref.name)) for ref in call.refs()),
                hint="this is a fault of the lowering; please report it with the call shown",
            ) from error
        finally:
            self.builder.call, self.builder.lowering_name = outer

    def _run_by_parts(self, function: Lowering, context: Context, args: Any, kwargs: Any) -> Any:
        """The same lowering on the real and on the imaginary parts of every operand."""

        def zero_part(value: ir.Value) -> ir.Value:
            # A real tensor beside complex ones (in cat, say); indices and masks stay as they are.
            floating = value.dtype is not None and value.dtype.is_floating_point()
            return self.builder.Mul(value, 0.0) if floating else value

        real = function(context, *part(args, real_of, lambda value: value), **kwargs)
        imag = function(context, *part(args, imag_of, zero_part), **kwargs)
        if isinstance(real, (list, tuple)):
            return tuple(Complex(*pair) for pair in zip(real, imag, strict=True))
        return Complex(real, imag)

    def _bind(self, call: Call, result: Any) -> None:
        bound = bind_result(call, call.spec, result, self.builder)
        self.env[call.name] = bound
        self._carry(call.spec, bound)

    def _lower_decomposed(self, call: Call) -> bool:
        """Replace the call by a local decomposition; False when there is none."""
        if self._depth >= _DEEPEST_DECOMPOSITION or call.regions:
            return False
        inner = decomposition_of(call, lambda name: self.specs[name])
        if inner is None:
            return False
        self.report.decomposed[call.key] = self.report.decomposed.get(call.key, 0) + 1
        for name, weight in inner.weights.items():
            self.graph.weights.setdefault(name, weight)
            self.specs[name] = weight.spec
        for step in walk_calls(inner.calls):
            self._note_uses(step)
        self._uses.update((output.value.name, None) for output in inner.outputs if isinstance(output.value, Ref))
        self._depth += 1
        try:
            for step in inner.calls:
                self.lower_call(step)
        finally:
            self._depth -= 1
        results = [self.argument(output.value) for output in inner.outputs]
        self._bind(call, tuple(results) if isinstance(call.spec, tuple) else results[0])
        return True

    def argument(self, value: Any) -> Any:
        """A captured argument as a lowering receives it."""
        if isinstance(value, Ref):
            return self.read(value.name)
        if isinstance(value, (list, tuple)):
            return (
                [self.argument(item) for item in value] if isinstance(value, list) else tuple(map(self.argument, value))
            )
        if isinstance(value, dict):
            return {key: self.argument(item) for key, item in value.items()}
        if isinstance(value, DType):
            return dtypes.ONNX_TYPE.get(value.name) or self._refuse_dtype(value)
        return value

    def _refuse_dtype(self, dtype: DType) -> ir.DataType:
        call = self.builder.call
        raise UnsupportedCaseError(
            f"{call.key} uses torch.{dtype.name}, which ONNX does not have", op=call.key, source=call.source
        )

    def read(self, name: str) -> Any:
        """The value of a captured name: a weight becomes an initializer when it is first read."""
        if name not in self.env:
            weight = self.graph.weights.get(name)
            if weight is None:
                raise InternalLoweringError(f"the captured graph reads {name} before it is made")
            value = self.weights.get(weight)
            self.env[name] = split(self.builder, value) if is_complex(weight.spec) else value
        return self.env[name]

    # -- sizes --------------------------------------------------------------------------------------

    def _carry(self, spec: Spec, value: Any) -> None:
        """Remember which values tell the symbolic dims of a spec at run time."""
        if isinstance(spec, TensorSpec) and isinstance(value, ir.Value):
            for axis, dim in enumerate(spec.shape):
                if isinstance(dim, SymDim):
                    self._carriers.setdefault(dim.expr, (value, axis))
        elif isinstance(spec, ScalarSpec) and spec.expr is not None and isinstance(value, ir.Value):
            self._carriers.setdefault(spec.expr, (value, None))
        elif isinstance(spec, tuple) and isinstance(value, (list, tuple)):
            for one, item in zip(spec, value, strict=False):
                self._carry(one, item)

    def carrier_of(self, dim: SymDim) -> tuple[ir.Value, int | None] | None:
        return self._carriers.get(dim.expr)

    # -- regions ------------------------------------------------------------------------------------

    def _function_of(self, call: Call) -> Lowering | None:
        """The lowering of a call: complex operands or results have their own table."""
        if call.key not in self.overrides and call.key not in PART_WISE and self._is_complex(call):
            return COMPLEX_REGISTRY.find(call.key, self.builder.opset)
        return self.function_or_none(call.key)

    def _is_complex(self, call: Call) -> bool:
        return is_complex(call.spec) or any(is_complex(self.specs.get(ref.name)) for ref in call.refs())

    def function_or_none(self, key: str) -> Lowering | None:
        """The lowering in force for a key at this opset."""
        return self.registry.find(key, self.builder.opset, self.overrides)

    def function_for(self, key: str, call: Call) -> Lowering:
        function = self.function_or_none(key)
        if function is None:
            raise InternalLoweringError(f"the lowering of {call.key} needs one for {key}", op=key, source=call.source)
        return function

    def inline(self, region: Region, arguments: Sequence[Any]) -> list[Any]:
        """Lower a region's calls into the current scope with ``arguments`` for its parameters."""
        for (name, spec), value in zip(region.params, arguments, strict=True):
            self.env[name], self.specs[name] = value, spec
            self._carry(spec, value)
        for call in region.calls:
            self.lower_call(call)
        return [self.argument(output) for output in region.outputs]

    def branch(
        self, region: Region, arguments: Sequence[Any], wrap: Callable[[list[Any]], list[Any]] | None = None
    ) -> tuple[ir.Graph, list[ir.Value]]:
        """An If branch: no inputs, outer values captured; ``wrap`` may adapt the outputs inside."""

        def make() -> list[Any]:
            results = self.inline(region, arguments)
            return wrap(results) if wrap is not None else results

        graph = self.scoped_graph([], make, f"{self.builder.call.name}_branch")
        return graph, list(graph.outputs)

    def scoped_graph(self, inputs: Sequence[ir.Value], make: Callable[[], Sequence[Any]], name: str) -> ir.Graph:
        """A graph whose nodes are what ``make`` emits; each output is a value of its own."""
        outer_scope, outer_env, outer_carriers = self.builder.scope, self.env, self._carriers
        self.builder.scope, self.env, self._carriers = Scope(outer_scope), dict(outer_env), dict(outer_carriers)
        try:
            outputs = self._own_outputs(list(make()))
            nodes = self.builder.scope.nodes
        finally:
            self.inside |= {key: value for key, value in self.env.items() if key not in outer_env}
            self.builder.scope, self.env, self._carriers = outer_scope, outer_env, outer_carriers
        return ir.Graph(list(inputs), outputs, nodes=nodes, name=name)

    def _own_outputs(self, results: list[Any]) -> list[ir.Value]:
        """Body outputs must be made inside the body, each once."""
        inside = {id(value) for node in self.builder.scope.nodes for value in node.outputs}
        outputs: list[ir.Value] = []
        for result in results:
            value = result
            if not isinstance(value, ir.Value):
                value = self.builder.constants.get(result, dtypes.type_of_number(result))
            if id(value) not in inside or any(value is have for have in outputs):
                copy = ir.Node("", "Identity", [value], num_outputs=1)
                copy.outputs[0].type, copy.outputs[0].shape = value.type, value.shape
                self.builder.scope.add(copy, None)
                value = copy.outputs[0]
            outputs.append(value)
        return outputs


def _input_value(name: str, spec: Spec, axis_names: dict[int, str]) -> ir.Value:
    if isinstance(spec, ScalarSpec):
        value = ir.Value(name=name, shape=ir.Shape([]), type=ir.TensorType(dtypes.SCALAR_TYPE[spec.kind]))
        value.meta["onnx_lab.number"] = True
        return value
    assert isinstance(spec, TensorSpec)
    dims: list[int | str] = [
        axis_names.get(axis, dim if isinstance(dim, int) else dim.expr) for axis, dim in enumerate(spec.shape)
    ]
    value = ir.Value(name=name, type=ir.TensorType(dtypes.onnx_type(spec.dtype)))
    if is_complex(spec):
        dims.append(2)
    value.shape = ir.Shape(dims)
    return value
