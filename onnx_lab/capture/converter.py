"""FX nodes to calls: keys, arguments, specs, and graphs of control-flow operators as regions."""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable
from typing import Any

import sympy
import torch
from torch._ops import HigherOrderOperator, OpOverload

from onnx_lab.capture.autocast import operand_dtype
from onnx_lab.capture.sources import SourceReader
from onnx_lab.errors import CaptureError
from onnx_lab.program.graph import Call, Ref, Region, map_refs
from onnx_lab.program.op_key import OpKey
from onnx_lab.program.spec import Dim, DType, ScalarSpec, Spec, SymDim, TensorSpec

_KIND = {torch.SymInt: "int", torch.SymFloat: "float", torch.SymBool: "bool", int: "int", float: "float", bool: "bool"}
# Checks on values: they make no result, and a model that runs elsewhere has nobody to tell.
_ASSERTIONS = frozenset(
    {
        "aten::_assert_tensor_metadata", "aten::_assert_scalar", "aten::_assert_async.msg", "aten::_assert_async",
        "aten::sym_constrain_range", "aten::sym_constrain_range_for_size", "aten::_functional_assert_async.msg",
        "profiler::_record_function_exit._RecordFunction", "profiler::_record_function_enter_new",
    }
)  # fmt: skip
# Wrappers that change nothing for inference: their graph is called in place.
_TRANSPARENT = frozenset({"wrap_with_set_grad_enabled", "wrap", "strict_mode", "tag_activation_checkpoint"})
_NAMES = dict(vars(operator))


class FxConverter:
    """Turns the nodes of one FX graph module (and of those it holds) into calls.

    Args:
        rename: maps a symbol of torch's shape environment to the name it has in the model.
    """

    def __init__(self, rename: Callable[[sympy.Symbol], str] | None = None) -> None:
        self._rename = rename or (lambda symbol: symbol.name)
        self._sources = SourceReader()
        self._dims: dict[Any, Dim] = {}
        self._taken: set[str] = set()
        self._autocast = False  # whether what is converted now runs under torch.autocast
        self.notes: list[str] = []

    # -- graphs -------------------------------------------------------------------------------------

    def convert(self, module: torch.fx.GraphModule, names: dict[str, Any]) -> tuple[list[Call], Any]:
        """Calls of a graph module and its (nested) output argument.

        ``names`` maps FX names to what stands for them (placeholders must be in it).
        """
        calls: list[Call] = []
        output: Any = None
        for node in module.graph.nodes:
            if node.op == "call_function":
                self._convert_call(module, node, names, calls)
            elif node.op == "output":
                output = self.argument(node.args[0], names)
            elif node.op == "get_attr":
                names.setdefault(node.name, _Attribute(module, str(node.target)))
            elif node.op != "placeholder":
                raise CaptureError(f"the captured graph has a {node.op} node", seen=node.format_node() or node.name)
        return calls, output

    def _convert_call(
        self, module: torch.fx.GraphModule, node: torch.fx.Node, names: dict[str, Any], calls: list[Call]
    ) -> None:
        key = key_of(node.target)
        if key in _ASSERTIONS:
            return
        if isinstance(node.target, HigherOrderOperator):
            if self._inline(node, names, calls):
                return
            calls.append(self._control_flow(node, key, names))
            return
        args = tuple(self.argument(item, names) for item in node.args)
        if key == "_operator::getitem" and isinstance(args[0], (list, tuple)):
            names[node.name] = args[0][args[1]]  # picks from the body of an inlined wrapper
            return
        if self._autocast:
            args = self._cast_operands(node, key, args, names, calls)
        name = self._claim(node.name)
        names[node.name] = Ref(name)
        calls.append(
            Call(
                name,
                key,
                args,
                {key: self.argument(item, names) for key, item in node.kwargs.items()},
                self.spec(node.meta.get("val")),
                self._sources.read(node),
            )
        )

    def _cast_operands(
        self, node: torch.fx.Node, key: OpKey, args: tuple[Any, ...], names: dict[str, Any], calls: list[Call]
    ) -> tuple[Any, ...]:
        """The arguments of a call under autocast as it takes them: converted by calls of their own."""
        given = {
            ref.name: one.meta.get("val") for one in node.all_input_nodes if isinstance(ref := names.get(one.name), Ref)
        }
        wanted = operand_dtype(key, list(given.values()), node.meta.get("val"))
        if wanted is None:
            return args
        dtype = DType(str(wanted).removeprefix("torch."))
        converted: dict[str, Ref] = {}
        for name, value in given.items():
            if isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype != wanted:
                converted[name] = Ref(self._claim(f"{node.name}_{name}_cast"))
                spec = TensorSpec(dtype.name, tuple(self.dim(size) for size in value.shape))
                source = self._sources.read(node)
                calls.append(Call(converted[name].name, OpKey("aten::to.dtype"), (Ref(name), dtype), {}, spec, source))
        made: tuple[Any, ...] = map_refs(args, lambda ref: converted.get(ref.name, ref))
        return made

    def _claim(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self._taken:
            name, number = f"{wanted}_{number}", number + 1
        self._taken.add(name)
        return name

    def reserve(self, name: str) -> None:
        """No call may take this name."""
        self._taken.add(name)

    # -- higher-order operators ---------------------------------------------------------------------

    def _control_flow(self, node: torch.fx.Node, key: OpKey, names: dict[str, Any]) -> Call:
        """Graph arguments become regions, in order; the other arguments keep theirs."""
        args, regions = [], []
        for item in node.args:
            attribute = names.get(item.name) if isinstance(item, torch.fx.Node) else None
            if isinstance(attribute, _Attribute) and isinstance(attribute.value, torch.fx.GraphModule):
                regions.append(self.region(attribute.value))
            else:
                args.append(self.argument(item, names))
        name = self._claim(node.name)
        names[node.name] = Ref(name)
        return Call(
            name, key, tuple(args), {}, self.spec(node.meta.get("val")), self._sources.read(node), tuple(regions)
        )

    def region(self, module: torch.fx.GraphModule) -> Region:
        """A sub-graph with parameters of its own; its names are unique in the whole program."""
        names: dict[str, Any] = {}
        params: list[tuple[str, Spec]] = []
        for node in module.graph.nodes:
            if node.op == "placeholder":
                name = self._claim(node.name)
                names[node.name] = Ref(name)
                params.append((name, self.spec(node.meta.get("val"))))
        calls, output = self.convert(module, names)
        outputs = list(output) if isinstance(output, (list, tuple)) else [output]
        return Region(params, calls, outputs)

    def _inline(self, node: torch.fx.Node, names: dict[str, Any], calls: list[Call]) -> bool:
        """Put the body of a transparent wrapper in place of its call."""
        kind = getattr(node.target, "__name__", "")
        body: Any
        if kind == "autograd_function_apply":
            body, arguments = node.args[0], node.args[2:]
        elif kind == "wrap_with_autocast":
            body, arguments = node.args[4], node.args[5:]
        elif kind in _TRANSPARENT:
            at = next(
                i for i, item in enumerate(node.args) if isinstance(names.get(getattr(item, "name", "")), _Attribute)
            )
            body, arguments = node.args[at], node.args[at + 1 :]
        else:
            return False
        inner = names[body.name].value
        bound: dict[str, Any] = {}
        placeholders = [one for one in inner.graph.nodes if one.op == "placeholder"]
        for placeholder, argument in zip(placeholders, arguments, strict=False):
            bound[placeholder.name] = self.argument(argument, names)
        outer = self._autocast
        if kind == "wrap_with_autocast":
            self._autocast = bool(node.args[2])
        inner_calls, output = self.convert(inner, bound)
        self._autocast = outer
        calls.extend(inner_calls)
        if kind == "autograd_function_apply":
            output = output[0]
        # getitem nodes on the wrapper pick from what its body returned.
        names[node.name] = output
        return True

    # -- arguments and specs ------------------------------------------------------------------------

    def argument(self, value: Any, names: dict[str, Any]) -> Any:
        """An FX argument as plain data."""
        if isinstance(value, torch.fx.Node):
            found = names[value.name]
            if isinstance(found, _Attribute):
                return found.value
            return found
        if isinstance(value, (list, tuple)):
            items = [self.argument(item, names) for item in value]
            return tuple(items) if isinstance(value, tuple) and not isinstance(value, torch.Size) else items
        if isinstance(value, dict):
            return {key: self.argument(item, names) for key, item in value.items()}
        if isinstance(value, torch.dtype):
            return DType(str(value).removeprefix("torch."))
        if isinstance(value, (torch.device, torch.layout, torch.memory_format)):
            return str(value)
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}[type(value)](value)
        return value

    def spec(self, value: Any) -> Spec:
        """Dtype and shape of an FX node's example value."""
        if isinstance(value, torch.Tensor):
            return TensorSpec(
                str(value.dtype).removeprefix("torch."),
                tuple(self.dim(size) for size in value.shape),
                _storage(value),
                *_layout(value),
            )
        if isinstance(value, (list, tuple)):
            return tuple(self.spec(item) for item in value)
        kind = _KIND.get(type(value))
        if kind is None:
            return None
        return ScalarSpec(kind, str(self.dim(value)) if kind == "int" else None)

    def dim(self, size: Any) -> Dim:
        """A size: an int, or an expression over the model's dimension names."""
        if isinstance(size, int):
            return size
        expression = size.node.expr
        found = self._dims.get(expression)
        if found is None:
            found = self._name(expression)
            self._dims[expression] = found
        return found

    def _name(self, expression: Any) -> Dim:
        if isinstance(expression, (int, sympy.Integer)):
            return int(expression)
        names = {symbol: sympy.Symbol(self._rename(symbol), integer=True) for symbol in expression.free_symbols}
        return SymDim(str(expression.xreplace(names)))


class _Attribute:
    """A get_attr node: a sub-graph or a tensor that the graph module holds."""

    def __init__(self, module: torch.nn.Module, target: str) -> None:
        value: Any = module
        for part in target.split("."):
            value = getattr(value, part)
        self.value = value


def key_of(target: Any) -> OpKey:
    """The key of anything that FX calls.

    Raises:
        CaptureError: a function that is neither an operator nor arithmetic on sizes.
    """
    if isinstance(target, OpOverload):
        return OpKey(target.name())
    if isinstance(target, HigherOrderOperator):
        return OpKey.of("higher_order", target.__name__)
    name = getattr(target, "__name__", "")
    if _NAMES.get(name) is target:
        return OpKey.of("_operator", name.strip("_"))
    if getattr(math, name, None) is target:
        return OpKey.of("math", name)
    if getattr(builtins, name, None) is target:
        return OpKey.of("builtins", name)
    if getattr(target, "__module__", "").startswith("torch"):
        return OpKey.of("torch", name.removeprefix("_"))
    raise CaptureError(f"the captured graph calls {target}, which is no operator")


def _layout(value: torch.Tensor) -> tuple[tuple[int, ...] | None, int]:
    """Strides and offset where they are static."""
    if value.layout is not torch.strided:
        return None, 0
    strides, offset = value.stride(), value.storage_offset()
    if isinstance(offset, int) and all(isinstance(step, int) for step in strides):
        return strides, offset
    return None, 0


def _storage(value: torch.Tensor) -> int | None:
    try:
        return int(value.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):  # sparse and other opaque tensors have none
        return None
