"""TorchScript's own nodes (``prim::``) and operators that ask a tensor for something that is known of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from onnx_lab.capture.torchscript import operators, scalars
from onnx_lab.capture.torchscript.containers import scalar_tensor, tensor_of
from onnx_lab.capture.torchscript.raising import RaisedError
from onnx_lab.capture.torchscript.types import has_type
from onnx_lab.capture.torchscript.values import (
    UNINITIALIZED,
    DictCell,
    ListCell,
    Maybe,
    Number,
    ObjectCell,
    TensorValue,
    Text,
    Value,
    describe,
    is_known,
)
from onnx_lab.errors import CaptureError

if TYPE_CHECKING:
    from onnx_lab.capture.torchscript.interpreter import Interpreter

Handler = Callable[["Interpreter", Any, list[Value]], Value]
PRIM: dict[str, Handler] = {}


def _handles(*kinds: str) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        for kind in kinds:
            PRIM[kind] = handler
        return handler

    return register


# -- constants and structure ------------------------------------------------------------------------


# Python numbers among tensors are 0-D tensors of these types in a traced graph.
_NUMBERS = (torch.int64, torch.float64, torch.bool, torch.complex128)


@_handles("prim::Constant")
def _constant(run: Interpreter, node: Any, args: list[Value]) -> Value:
    output = node.output()
    if output.type().kind() == "FunctionType":
        return None  # only calls read it, by themselves
    value = output.toIValue()
    made = operators.from_python(run.tape, value) if value is not None else None
    if isinstance(made, TensorValue):
        made.wrapped = made.fake.dim() == 0 and made.fake.dtype in _NUMBERS
    return made


@_handles("prim::Uninitialized")
def _uninitialized(run: Interpreter, node: Any, args: list[Value]) -> Value:
    return UNINITIALIZED


@_handles("prim::RaiseException")
def _raise(run: Interpreter, node: Any, args: list[Value]) -> Value:
    message = str(args[0]) if args and isinstance(args[0], (str, Text)) else "an error"
    kind = args[1] if len(args) > 1 and isinstance(args[1], str) else ""
    raise RaisedError(f"{kind.rpartition('.')[2] or 'Exception'}: {message}")


@_handles("prim::Print", "aten::warn", "aten::warn_once", "prim::Enter", "prim::Exit", "prim::profile")
def _nothing(run: Interpreter, node: Any, args: list[Value]) -> Value:
    return () if node.outputsSize() != 1 else None


@_handles("prim::TupleConstruct")
def _tuple(run: Interpreter, node: Any, args: list[Value]) -> Value:
    return tuple(args)


@_handles("prim::TupleUnpack", "prim::ListUnpack")
def _unpack(run: Interpreter, node: Any, args: list[Value]) -> Value:
    items = _items(run, args[0])
    if len(items) != node.outputsSize():
        raise CaptureError(f"{len(items)} values are unpacked into {node.outputsSize()}", source=run.tape.source)
    return items if node.outputsSize() != 1 else items[0]


def _items(run: Interpreter, value: Value) -> Any:
    if isinstance(value, Maybe):
        value = value.inner
    if isinstance(value, tuple):
        return value
    if isinstance(value, ListCell) and isinstance(value.content, list):
        return value.content
    raise CaptureError(
        f"{describe(value)} is unpacked", source=run.tape.source, hint="index it, or make its length known"
    )


@_handles("prim::TupleIndex")
def _tuple_index(run: Interpreter, node: Any, args: list[Value]) -> Value:
    items, index = _items(run, args[0]), args[1]
    if isinstance(index, Number):
        raise CaptureError(
            "a tuple is indexed by a number that only the run tells", source=run.tape.source, hint="use a list"
        )
    return items[index]


@_handles("prim::TupleSlice")
def _tuple_slice(run: Interpreter, node: Any, args: list[Value]) -> Value:
    return _items(run, args[0])[node.i("beg") : node.i("end")]


@_handles("prim::ListConstruct")
def _list(run: Interpreter, node: Any, args: list[Value]) -> Value:
    return run.tape.list(list(args))


@_handles("prim::DictConstruct")
def _dict(run: Interpreter, node: Any, args: list[Value]) -> Value:
    return run.tape.cell(DictCell(dict(zip(args[::2], args[1::2], strict=True))))


@_handles("aten::format", "aten::percentFormat", "aten::str")
def _text(run: Interpreter, node: Any, args: list[Value]) -> Value:
    """Text for messages; what only the run tells stands in it by its kind."""
    shown = [operators.to_python(one) if is_known(one) else f"<{describe(one)}>" for one in args]
    if node.kind() == "aten::str":
        made = str(shown[0])
    elif node.kind() == "aten::format":
        made = str(shown[0]).format(*shown[1:])
    else:
        made = str(shown[0]) % tuple(shown[1:]) if all(map(is_known, args)) else f"{shown[0]} % {shown[1:]}"
    return made if all(map(is_known, args)) else Text(made)


# -- objects ----------------------------------------------------------------------------------------


@_handles("prim::GetAttr")
def _get_attribute(run: Interpreter, node: Any, args: list[Value]) -> Value:
    return run.objects.read(_object(run, args[0]), node.s("name"))


@_handles("prim::SetAttr")
def _set_attribute(run: Interpreter, node: Any, args: list[Value]) -> Value:
    _object(run, args[0]).content[node.s("name")] = args[1]
    return ()


def _object(run: Interpreter, value: Value) -> ObjectCell:
    if isinstance(value, Maybe):
        value = value.inner
    if not isinstance(value, ObjectCell):
        raise CaptureError(f"an attribute of {describe(value)} is read", source=run.tape.source)
    return value


@_handles("prim::CreateObject")
def _create(run: Interpreter, node: Any, args: list[Value]) -> Value:
    return run.objects.create(node.output().type())


@_handles("prim::isinstance")
def _isinstance(run: Interpreter, node: Any, args: list[Value]) -> Value:
    types = node.tys("types")
    value = args[0]
    if isinstance(value, Maybe):
        absent, there = (any(has_type(one, type_) for type_ in types) for one in (None, value.inner))
        if absent is there:
            return there
        return value.present if there else scalars.negation(run.tape, value.present)
    return any(has_type(value, type_) for type_ in types)


# -- optionals --------------------------------------------------------------------------------------


@_handles("aten::__is__", "aten::__isnot__")
def _is(run: Interpreter, node: Any, args: list[Value]) -> Value:
    one, other = args
    negated = node.kind() == "aten::__isnot__"
    if other is None and isinstance(one, Maybe):
        return one.present if negated else scalars.negation(run.tape, one.present)
    same = one is other
    return same is not negated


@_handles("prim::unchecked_cast", "aten::_unwrap_optional", "prim::unchecked_unwrap_optional")
def _unwrap(run: Interpreter, node: Any, args: list[Value]) -> Value:
    value = args[0].inner if isinstance(args[0], Maybe) else args[0]
    if value is None and node.kind() == "aten::_unwrap_optional":
        raise RaisedError("AssertionError: an optional value is None")
    return value


# -- what is known of tensors -----------------------------------------------------------------------


def _tensor(run: Interpreter, value: Value) -> TensorValue:
    if isinstance(value, Maybe):
        value = value.inner
    if not isinstance(value, TensorValue):
        raise CaptureError(f"a tensor is needed where the program has {describe(value)}", source=run.tape.source)
    return value


def _of_known_rank(run: Interpreter, value: Value, what: str) -> TensorValue:
    tensor = _tensor(run, value)
    if tensor.ranks:
        raise CaptureError(
            f"{what} of a tensor that is empty on one path and has {tensor.fake.dim()} axes on another",
            source=run.tape.source,
            hint="test len(x) or x.numel(), or start with an empty tensor of the same number of axes",
        )
    return tensor


@_handles("aten::size", "prim::shape")
def _size(run: Interpreter, node: Any, args: list[Value]) -> Value:
    if len(args) > 1:
        tensor = _tensor(run, args[0]) if args[1] == 0 else _of_known_rank(run, args[0], "a size")
        return run.tape.size(tensor, args[1] % max(tensor.fake.dim(), 1))
    tensor = _of_known_rank(run, args[0], "the shape")
    return run.tape.list([run.tape.size(tensor, axis) for axis in range(tensor.fake.dim())])


@_handles("aten::dim", "aten::ndimension")
def _dim(run: Interpreter, node: Any, args: list[Value]) -> Value:
    return _of_known_rank(run, args[0], "the number of axes").fake.dim()


@_handles("aten::numel")
def _numel(run: Interpreter, node: Any, args: list[Value]) -> Value:
    tensor = _tensor(run, args[0])
    count = tensor.fake.numel()
    return count if isinstance(count, int) else run.tape.emit("aten::sym_numel", (tensor.ref,), count)


_FACTS: dict[str, Callable[[torch.Tensor], Any]] = {
    "prim::dtype": lambda fake: operators.DTYPE_CODES[fake.dtype],
    "prim::device": lambda fake: torch.device("cpu"),
    "prim::layout": lambda fake: 0,
    "prim::is_cuda": lambda fake: False,
    "prim::is_cpu": lambda fake: True,
    "prim::is_xpu": lambda fake: False,
    "prim::is_mps": lambda fake: False,
    "prim::is_sparse": lambda fake: False,
    "prim::is_quantized": lambda fake: False,
    "prim::is_mkldnn": lambda fake: False,
    "prim::is_meta": lambda fake: False,
    "prim::is_nested": lambda fake: False,
    "prim::requires_grad": lambda fake: False,
    "aten::is_floating_point": lambda fake: fake.is_floating_point(),
    "aten::is_complex": lambda fake: fake.is_complex(),
    "aten::is_contiguous": lambda fake: fake.is_contiguous(),
    "aten::get_device": lambda fake: -1,
    "aten::element_size": lambda fake: fake.element_size(),
    "aten::requires_grad": lambda fake: False,
}


@_handles(*_FACTS)
def _fact(run: Interpreter, node: Any, args: list[Value]) -> Value:
    return _FACTS[node.kind()](_tensor(run, args[0]).fake)


@_handles("aten::len")
def _len(run: Interpreter, node: Any, args: list[Value]) -> Value:
    from onnx_lab.capture.torchscript.containers import find

    value = args[0].inner if isinstance(args[0], Maybe) else args[0]
    if isinstance(value, TensorValue):
        return run.tape.size(value, 0)
    if isinstance(value, (str, tuple)):
        return len(value)
    handler = find("aten::len", [value])
    if handler is None:
        raise CaptureError(f"len() of {describe(value)}", source=run.tape.source)
    return handler(run.tape, [value])


# -- tensors and numbers ----------------------------------------------------------------------------

_IMPLICIT = {"aten::IntImplicit": "int", "aten::FloatImplicit": "float", "aten::ScalarImplicit": "", "aten::item": ""}


@_handles("aten::Int", "aten::Float", "aten::Bool", *_IMPLICIT)
def _number(run: Interpreter, node: Any, args: list[Value]) -> Value:
    value = args[0]
    kind = _IMPLICIT.get(node.kind(), node.kind().removeprefix("aten::").lower())
    if not kind:
        tensor = _tensor(run, value)
        kind = "bool" if tensor.fake.dtype is torch.bool else "float" if tensor.fake.is_floating_point() else "int"
    if isinstance(value, str):
        return {"int": int, "float": float, "bool": bool}[kind](value)
    return scalars.cast(run.tape, value, kind)


@_handles("prim::NumToTensor")
def _to_tensor(run: Interpreter, node: Any, args: list[Value]) -> Value:
    made = scalar_tensor(run.tape, args[0])
    if made.number is None:
        made.number = args[0]
    return made


_EMPTY = {"List[int]": 4, "List[bool]": 11}


@_handles("aten::tensor", "aten::as_tensor")
def _make_tensor(run: Interpreter, node: Any, args: list[Value]) -> Value:
    code = args[1] if len(args) > 1 else None
    if code is None and isinstance(args[0], ListCell) and not args[0].content:
        # Of an empty list only its declared type tells what it would hold.
        code = _EMPTY.get(str(next(iter(node.inputs())).type()))
    if node.kind() == "aten::as_tensor" and isinstance(args[0], TensorValue) and code is None:
        return args[0]
    return tensor_of(run.tape, args[0], operators.DTYPES[code] if isinstance(code, int) else code)


@_handles("aten::to", "aten::cpu", "aten::cuda", "aten::pin_memory", "prim::data")
def _to(run: Interpreter, node: Any, args: list[Value]) -> Value:
    """Conversions: a device alone changes nothing, since the exported model has none."""
    from onnx_lab.capture.torchscript.graphs import operator_key

    tensor, key = _tensor(run, args[0]), operator_key(node)
    if node.kind() != "aten::to":
        return tensor if node.kind() != "prim::data" else operators.run(run.tape, "aten::detach", [tensor])
    if key == "aten::to.other":
        return _converted(run, tensor, args[1].fake.dtype, args[3])
    wanted, copy = _asked(key, args)
    return _converted(run, tensor, wanted, copy)


def _asked(key: str, args: list[Value]) -> tuple[torch.dtype | None, bool]:
    """The dtype and whether to copy, from the arguments of one of the overloads of ``to``."""
    at = {"aten::to.dtype": 1, "aten::to.device": 2, "aten::to.prim_Device": 2, "aten::to.prim_dtype": 1}.get(key, 1)
    code = args[at]
    copy = {"aten::to.dtype": 3, "aten::to.device": 4, "aten::to.prim_Device": 4, "aten::to.prim_dtype": 3}.get(key, 6)
    wanted = operators.DTYPES[code] if isinstance(code, int) and not isinstance(code, bool) else None
    return wanted, bool(args[copy]) if copy < len(args) else False


def _converted(run: Interpreter, tensor: TensorValue, dtype: torch.dtype | None, copy: bool) -> Value:
    if dtype is None or dtype == tensor.fake.dtype:
        return operators.run(run.tape, "aten::clone", [tensor]) if copy else tensor
    made = operators.run(run.tape, "aten::to.dtype", [tensor, dtype])
    assert isinstance(made, TensorValue)
    if run.tape.number_in(tensor) is not None and dtype is not torch.bool and not dtype.is_complex:
        kind = "float" if dtype.is_floating_point else "int"
        known = tensor.number
        made.number = scalars.cast(run.tape, known, kind) if isinstance(known, Number) or kind == "int" else known
    return made


@_handles("prim::tolist")
def _to_list(run: Interpreter, node: Any, args: list[Value]) -> Value:
    tensor = _tensor(run, args[0])
    if tensor.fake.dim() != 1 or not isinstance(tensor.fake.shape[0], int):
        raise CaptureError(
            "tolist() of a tensor that is not 1-D of a known length",
            source=run.tape.source,
            seen=describe(tensor),
            hint="index the tensor instead",
        )
    items = [
        scalars.cast(run.tape, operators.run(run.tape, "aten::select.int", [tensor, 0, index]), _kind(tensor))
        for index in range(tensor.fake.shape[0])
    ]
    return run.tape.list(items)


def _kind(tensor: TensorValue) -> str:
    if tensor.fake.dtype is torch.bool:
        return "bool"
    return "float" if tensor.fake.is_floating_point() else "int"


@_handles("aten::divmod")
def _divmod(run: Interpreter, node: Any, args: list[Value]) -> Value:
    pairs = ("aten::floordiv", "aten::remainder")
    return tuple(scalars.compute_any(run.tape, kind, args) for kind in pairs)


# -- subgraphs --------------------------------------------------------------------------------------


@_handles("prim::fork")
def _fork(run: Interpreter, node: Any, args: list[Value]) -> Value:
    outputs = run.call(node.g("Subgraph"), args, run.tape.source)
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


@_handles("aten::wait")
def _wait(run: Interpreter, node: Any, args: list[Value]) -> Value:
    return args[0]
