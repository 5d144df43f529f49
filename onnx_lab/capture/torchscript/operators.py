"""Operators of torch: run on shapes for what is known of their result, and recorded as calls."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import OpOverload

from onnx_lab.capture.recurrent import register as register_recurrent
from onnx_lab.capture.schema import aliasing, resolve
from onnx_lab.capture.torchscript.tape import NeedsSymbolsError, Tape
from onnx_lab.capture.torchscript.traced_numbers import number_of
from onnx_lab.capture.torchscript.values import (
    DictCell,
    ListCell,
    Maybe,
    Number,
    ObjectCell,
    Sequence,
    TensorValue,
    Value,
    describe,
    is_known,
)
from onnx_lab.errors import CaptureError, OnnxLabError
from onnx_lab.program.op_key import OpKey
from onnx_lab.program.spec import DType

# The numbers that TorchScript writes for dtypes (c10/core/ScalarType.h), layouts and memory formats.
DTYPES = {
    0: torch.uint8, 1: torch.int8, 2: torch.int16, 3: torch.int32, 4: torch.int64, 5: torch.float16,
    6: torch.float32, 7: torch.float64, 8: torch.complex32, 9: torch.complex64, 10: torch.complex128, 11: torch.bool,
    12: torch.qint8, 13: torch.quint8, 14: torch.qint32, 15: torch.bfloat16,
}  # fmt: skip
DTYPE_CODES = {dtype: code for code, dtype in DTYPES.items()}
_LAYOUTS = {0: torch.strided}
_FORMATS = {
    0: torch.contiguous_format, 1: torch.preserve_format, 2: torch.channels_last, 3: torch.channels_last_3d,
}  # fmt: skip
_RECURRENT = {f"aten::{name}.input": f"onnx_lab::{name}" for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")}
# Torch picks a kernel for them by sizes, which has no part in their result.
_CHOOSING = frozenset({"conv1d", "conv2d", "conv3d", "convolution", "_convolution", "_convolution_mode"})


# Results that torch tells for some accelerators only.
_RULES: dict[str, Callable[..., Any]] = {
    "aten::_grouped_mm": lambda x, weight, *rest: x.new_empty((*x.shape[:-1], weight.shape[-1])),
}
# Operators that are done at once when all they are given are small constants.
_FOLDED = frozenset({"min", "max", "sum", "prod"})
_LARGEST_FOLDED = 64


@dataclass(frozen=True, slots=True)
class _Signature:
    """What is needed to call an overload: its arguments' names, types, defaults, and which are keywords."""

    overload: OpOverload
    names: tuple[str, ...]
    types: tuple[str, ...]
    defaults: tuple[Any, ...]
    keyword_only: tuple[bool, ...]


@functools.cache
def signature_of(key: str) -> _Signature | None:
    """The overload behind a key; None for what only TorchScript has."""
    parts = OpKey(key)
    try:
        torch._C._dispatch_find_schema_or_throw(parts.qualified_name, parts.overload)
    except RuntimeError:
        return None
    overload = resolve(key)
    if overload is None:
        return None
    arguments = overload._schema.arguments
    return _Signature(
        overload,
        tuple(argument.name for argument in arguments),
        tuple(str(argument.real_type) for argument in arguments),
        tuple(argument.default_value if argument.has_default_value() else _MISSING for argument in arguments),
        tuple(argument.kwarg_only for argument in arguments),
    )


_MISSING = object()


def run(tape: Tape, key: str, args: list[Value]) -> Value:
    """Record one operator call.

    Raises:
        CaptureError: the operator cannot take these, or torch cannot tell the shape of its result.
    """
    if key in _RECURRENT:
        register_recurrent()
        key = _RECURRENT[key]
    signature = signature_of(key)
    if signature is None:
        return _script_only(tape, key, args)
    if (folded := _folded(tape, signature, args)) is not None:
        return folded
    fakes, refs = [], []
    for name, kind, value in zip(signature.names, signature.types, args, strict=False):
        fake, ref = _argument(tape, key, name, kind, value)
        fakes.append(fake)
        refs.append(ref)
    _check_squeeze(tape, key, fakes)
    result = _abstract(tape, key, signature, fakes)
    call_args, call_kwargs = _written(signature, refs)
    made = tape.emit(key, call_args, result, kwargs=call_kwargs)
    written = aliasing(key).writes
    for name, value in zip(signature.names, args, strict=False):
        if name in written and isinstance(value, TensorValue):
            tape.note_write(value)
    if isinstance(made, TensorValue) and not written:
        if key == "aten::detach" and isinstance(args[0], TensorValue):
            # The same memory: what is known of one is known of the other.
            made.data, made.number = tape.data_of(args[0]), tape.number_in(args[0])
        else:
            made.number = number_of(tape, key, args)
    return made


def _folded(tape: Tape, signature: _Signature, args: list[Value]) -> Value:
    """The result on small constants alone, of operators that tracing applies to sizes; None for any other."""
    if signature.overload._schema.name.partition("::")[2] not in _FOLDED:
        return None
    given = [tape.data_of(arg) if isinstance(arg, TensorValue) else arg for arg in args]
    if any(one is None and isinstance(arg, TensorValue) for one, arg in zip(given, args, strict=True)):
        return None
    if not isinstance(given[0], torch.Tensor) or not all(map(is_known, args[1:])):
        return None
    made = signature.overload(*given)
    return constant(tape, made, "constant") if isinstance(made, torch.Tensor) else None


def _argument(tape: Tape, key: str, name: str, kind: str, value: Value) -> tuple[Any, Any]:
    """An argument for the abstract run, and as it is recorded."""
    if isinstance(value, TensorValue):
        if value.wrapped and name == "other" and isinstance(tape.number_in(value), (int, float)):
            return value.number, value.number
        return value.fake, value.ref
    if isinstance(value, Number):
        return value.sym, value.ref
    if isinstance(value, ListCell) and isinstance(value.content, list):
        pairs = [_argument(tape, key, name, kind, item) for item in value.content]
        return [fake for fake, _ in pairs], [ref for _, ref in pairs]
    if isinstance(value, tuple):
        return _argument(tape, key, name, kind, ListCell(list(value)))
    if isinstance(value, Maybe):
        # An optional tensor that the program has tested is read without a test.
        if "Optional" in kind:
            return _refuse(tape, key, name, value)
        return _argument(tape, key, name, kind, value.inner)
    if isinstance(value, (ListCell, ObjectCell)):
        return _refuse(tape, key, name, value)
    return _plain(kind, value, tape.device)


def _plain(kind: str, value: Value, device: torch.device) -> tuple[Any, Any]:
    if "ScalarType" in kind and isinstance(value, int):
        value = DTYPES[value]
    if "Layout" in kind and isinstance(value, int):
        return _LAYOUTS.get(value, torch.strided), None
    if "MemoryFormat" in kind and isinstance(value, int):
        return _FORMATS[value], str(_FORMATS[value])
    if isinstance(value, torch.dtype):
        return value, DType(str(value).removeprefix("torch."))
    if "Device" in kind or isinstance(value, torch.device):
        # The exported model has no devices; programs saved from an accelerator run here as well.
        return device, None if value is None else "cpu"
    return value, value


def _refuse(tape: Tape, key: str, name: str, value: Value) -> Any:
    raise CaptureError(
        f"the argument {name} of {key} is {describe(value)}",
        op=key,
        source=tape.source,
        hint="make what it gets known when exporting",
    )


def _abstract(tape: Tape, key: str, signature: _Signature, fakes: list[Any]) -> Any:
    positional = [fake for fake, keyword in zip(fakes, signature.keyword_only, strict=False) if not keyword]
    keywords = {
        name: fake
        for name, fake, keyword in zip(signature.names, fakes, signature.keyword_only, strict=False)
        if keyword
    }
    try:
        if key in _RULES:
            with tape.abstractly():
                return _RULES[key](*fakes)
        with tape.abstractly(), tape.ranges_kept(OpKey(key).name in _CHOOSING):
            return tape.broadcasting.run(lambda: signature.overload(*positional, **keywords), tape.source)
    except OnnxLabError:
        raise
    except Exception as error:  # an operator may raise anything
        if tape.plain:  # it may be that it has no rule for meta tensors
            raise NeedsSymbolsError from error
        text = str(error).strip().splitlines()
        raise CaptureError(
            f"torch cannot tell the result of {key} here",
            op=key,
            source=tape.source,
            seen=f"{type(error).__name__}: {text[0] if text else ''}; given {', '.join(map(_shown, fakes))}",
            hint="run the model eagerly on these inputs; if that works, make the sizes involved known when exporting",
        ) from error


def _shown(fake: Any) -> str:
    if isinstance(fake, torch.Tensor):
        return f"{str(fake.dtype).removeprefix('torch.')}{list(fake.shape)}"
    return f"[{', '.join(map(_shown, fake))}]" if isinstance(fake, list) else str(fake)


def _written(signature: _Signature, refs: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments as a captured call has them: without those that are defaults."""
    keywords = {}
    positional: list[Any] = []
    for name, ref, default, keyword in zip(
        signature.names, refs, signature.defaults, signature.keyword_only, strict=False
    ):
        if not keyword:
            positional.append(ref)
        elif ref is not None and not _equal(ref, default):
            keywords[name] = ref
    while positional and _equal(positional[-1], signature.defaults[len(positional) - 1]):
        positional.pop()
    return tuple(positional), keywords


def _equal(value: Any, default: Any) -> bool:
    plain = (int, float, bool, str, type(None))
    return isinstance(value, plain) and type(value) is type(default) and value == default


def _check_squeeze(tape: Tape, key: str, fakes: list[Any]) -> None:
    """Whether squeeze drops an axis depends on its size: no graph can do either.

    Raises:
        CaptureError: the size may well be 1.
    """
    if not key.startswith("aten::squeeze"):
        return
    tensor = fakes[0]
    axes = fakes[1] if len(fakes) > 1 else range(tensor.dim())
    open_axes = [
        axis for axis in ([axes] if isinstance(axes, int) else axes) if not isinstance(tensor.shape[axis], int)
    ]
    for axis in open_axes:
        size = tensor.shape[axis]
        if tape.conditional or not size.node.has_hint() or size.node.hint == 1:
            raise CaptureError(
                "squeeze of an axis whose size only the run tells",
                op=key,
                source=tape.source,
                seen=f"axis {axis} of {_shown(tensor)}" + ("; it is 1 in the example" if not tape.conditional else ""),
                hint="use x.select(dim, 0), name the axes that are always 1, or give an example of another size",
            )
        note = f"the model holds where axis {axis} is not 1 at squeeze ({tape.source.location or key})"
        if note not in tape.notes:
            tape.notes.append(note)


def _script_only(tape: Tape, key: str, args: list[Value]) -> Value:
    """What only TorchScript has, on data that is known: done at once."""
    overload = resolve(key)
    if overload is not None and all(map(is_known, args)) and not aliasing(key).writes:
        given = [to_python(arg) for arg in args]
        try:
            result = overload(*given)
        except Exception as error:  # it raises what Python would
            raise CaptureError(
                f"{key} cannot be done on {', '.join(map(describe, args))}",
                op=key,
                source=tape.source,
                seen=f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}",
                hint="run the model eagerly on these inputs first",
            ) from error
        return from_python(tape, result)
    raise CaptureError(
        f"{key} of values that only the run tells",
        op=key,
        source=tape.source,
        seen=", ".join(map(describe, args)),
        hint="write that line with tensor operations, or make its operands known when exporting",
    )


def to_python(value: Value) -> Any:
    """Known data as Python has it."""
    if isinstance(value, tuple):
        return tuple(map(to_python, value))
    if isinstance(value, ListCell) and not isinstance(value.content, Sequence):
        return list(map(to_python, value.content))
    if hasattr(value, "content"):
        return {key: to_python(item) for key, item in value.content.items()}
    if isinstance(value, torch.dtype):
        return DTYPE_CODES[value]
    return value


def from_python(tape: Tape, value: Any, target: str = "constant", *, lasting: bool = False) -> Value:
    """Python data, tensors in it, as values; ``lasting``: it was there before the call."""
    if isinstance(value, torch.Tensor):
        return constant(tape, value, target)
    if isinstance(value, (list, tuple)):
        items = [from_python(tape, item, f"{target}.{index}", lasting=lasting) for index, item in enumerate(value)]
        return tuple(items) if isinstance(value, tuple) else tape.cell(ListCell(items), lasting=lasting)
    if isinstance(value, dict):
        made = {key: from_python(tape, item, f"{target}.{key}", lasting=lasting) for key, item in value.items()}
        return tape.cell(DictCell(made), lasting=lasting)
    return value


def constant(tape: Tape, tensor: torch.Tensor, target: str) -> TensorValue:
    made = tape.weight(tensor, target, "constant")
    if made.data is None and tensor.numel() <= _LARGEST_FOLDED and not tensor.is_complex():
        made.data = tensor
        made.number = tensor.item() if tensor.dim() == 0 else None
    return made
