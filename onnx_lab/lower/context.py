"""What a lowering sees: the ONNX builder, the captured call, and the preparations all lowerings share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import onnx_ir as ir

from onnx_lab.errors import InternalLoweringError, UnsupportedCaseError
from onnx_lab.lower import dtypes
from onnx_lab.lower.builder import Builder
from onnx_lab.program.graph import Call, Ref, Region
from onnx_lab.program.spec import Dim, ListSpec, ScalarSpec, Spec, SymDim, TensorSpec

if TYPE_CHECKING:
    from onnx_lab.lower.lowerer import Lowerer

Number = bool | int | float
Size = int | ir.Value  # a size: known now, or a 0-D INT64 value


class Context:
    """Passed as ``ctx`` to every lowering.

    Attributes:
        op: the node builder: ``ctx.op.Add(x, 1.0)``.
        call: the captured call being lowered, with its key, source and spec.
        opset: the target opset.
    """

    def __init__(self, lowerer: Lowerer, builder: Builder, call: Call) -> None:
        self._lowerer = lowerer
        self.op = builder
        self.call = call
        self.opset = builder.opset

    # -- refusing -----------------------------------------------------------------------------------

    def unsupported(self, argument: str, value: Any, hint: str = "", *, final: bool = False) -> NoReturn:
        """Refuse this case: names the argument, its value, the user's line and what to do.

        Torch's decomposition is tried next; ``final`` forbids it where its numbers differ from eager's.

        Raises:
            UnsupportedCaseError: always.
        """
        error = UnsupportedCaseError(
            f"{self.call.key} cannot be lowered with {argument}={_short(value)}",
            op=self.call.key,
            source=self.call.source,
            seen=f"result {_short(self.call.spec)}",
            hint=hint or f'rewrite the call, or pass lowerings={{"{self.call.key}": your_function}}',
        )
        error.final = final
        raise error

    def note(self, text: str) -> None:
        """Tell the reader of the report what this lowering cannot promise, once, with the user's line."""
        found = f"{self.call.source.location or self.call.key}: {text}"
        if found not in self._lowerer.report.notes:
            self._lowerer.report.notes.append(found)

    # -- the call's results -------------------------------------------------------------------------

    @property
    def out(self) -> TensorSpec:
        """Spec of the call's (first) tensor result, as captured."""
        spec: Spec = self.call.spec
        while isinstance(spec, tuple):
            spec = next((item for item in spec if item is not None), None)
        if not isinstance(spec, TensorSpec):
            raise InternalLoweringError(
                f"{self.call.key} has no tensor result", op=self.call.key, source=self.call.source
            )
        return spec

    def argument_spec(self, index: int) -> Spec:
        """Spec of the captured value at a position among the call's arguments: also tells its strides."""
        given = self.call.args[index]
        return self._lowerer.specs.get(given.name) if isinstance(given, Ref) else None

    def out_spec(self, index: int) -> Spec:
        """Spec of result ``index`` of a call with several results."""
        spec = self.call.spec
        return spec[index] if isinstance(spec, tuple) else spec

    @property
    def out_dtype(self) -> ir.DataType:
        """Element type of the (first) result: what torch's type promotion decided."""
        spec = self.call.spec
        if isinstance(spec, ScalarSpec):
            return dtypes.SCALAR_TYPE[spec.kind]
        if isinstance(spec, ListSpec):
            return dtypes.onnx_type(spec.dtype)
        return dtypes.onnx_type(self.out.dtype)

    @property
    def out_shape(self) -> tuple[Dim, ...]:
        return self.out.shape

    def used(self, index: int) -> bool:
        """Whether result ``index`` of a call with several results is read anywhere."""
        return self._lowerer.result_is_used(self.call, index)

    # -- types --------------------------------------------------------------------------------------

    def cast(self, x: ir.Value, dtype: ir.DataType | None) -> ir.Value:
        """``x`` as ``dtype``; nothing is made when it already is, or when ``dtype`` is None."""
        if dtype is None or x.dtype == dtype:
            return x
        constant = self.op.constants.array(x)
        if constant is not None and constant.size <= 64 and not _is_exotic(dtype):
            return self.constant(constant.astype(dtype.numpy()), dtype)
        return self.op.Cast(x, to=dtype)

    def promote(self, *operands: ir.Value | Number) -> list[ir.Value]:
        """Operands brought to one element type by torch's rules (``torch.result_type``).

        Tensors with dims outrank 0-D tensors, which outrank Python numbers, within one category
        (bool, integer, floating point).
        """
        dtype = self.result_type(*operands)
        return [self.value(operand, dtype) for operand in operands]

    def result_type(self, *operands: ir.Value | Number) -> ir.DataType:
        """``torch.result_type`` for any mix of tensors, symbolic numbers and Python numbers."""
        groups: list[list[ir.DataType]] = [[], [], []]
        for operand in operands:
            if not isinstance(operand, ir.Value):
                groups[2].append(_NUMBER_TYPE[dtypes.scalar_category(operand)])
            elif operand.meta.get("onnx_lab.number"):
                groups[2].append(operand.dtype or ir.DataType.INT64)
            else:
                groups[0 if self.rank(operand) else 1].append(operand.dtype or ir.DataType.FLOAT)
        found: ir.DataType | None = None
        for group in groups:
            best: ir.DataType | None = None
            for dtype in group:
                best = dtype if best is None else dtypes.promote_types(best, dtype)
            if best is not None and (found is None or dtypes.category(best) > dtypes.category(found)):
                found = best
        if found is None:
            raise InternalLoweringError("no operands to promote", op=self.call.key, source=self.call.source)
        if found == ir.DataType.DOUBLE and found not in groups[0] + groups[1] and (groups[0] or groups[1]):
            return ir.DataType.FLOAT  # a float makes integers of a tensor numbers of the default dtype
        return found

    # -- constants and sizes ------------------------------------------------------------------------

    def constant(self, content: Any, dtype: ir.DataType | None = None) -> ir.Value:
        """A constant from a number, nested list or array; equal constants are one initializer."""
        return self.op.constants.get(content, dtype)

    def value(self, operand: ir.Value | Number, dtype: ir.DataType | None = None) -> ir.Value:
        """A tensor or number as a value of ``dtype`` (0-D for a number)."""
        if isinstance(operand, ir.Value):
            return self.cast(operand, dtype)
        return self.constant(operand, dtype)

    def vector(self, sizes: Sequence[Size] | Size) -> ir.Value:
        """Ints and symbolic ints as one 1-D INT64 value; a single one becomes a vector of one."""
        items = list(sizes) if isinstance(sizes, (list, tuple)) else [sizes]
        if all(isinstance(item, int) for item in items):
            return self.constant(np.asarray(items, dtype=np.int64))
        parts: list[ir.Value] = []
        run: list[int] = []
        for item in items:
            if isinstance(item, int):
                run.append(item)
                continue
            if run:
                parts.append(self.constant(np.asarray(run, dtype=np.int64)))
                run = []
            parts.append(self.as_vector(item))  # type: ignore[arg-type]
        if run:
            parts.append(self.constant(np.asarray(run, dtype=np.int64)))
        return parts[0] if len(parts) == 1 else self.op.Concat(*parts, axis=0)

    def as_vector(self, size: ir.Value) -> ir.Value:
        """A 0-D INT64 value as a vector of one element."""
        form: ir.Value | None = size.meta.get("onnx_lab.vector")
        if form is not None:
            return form
        if size.shape is not None and len(size.shape) == 1:
            return size
        return self.op.Unsqueeze(self.cast(size, ir.DataType.INT64), [0])

    def shape(self, x: ir.Value, start: int = 0, end: int | None = None) -> ir.Value:
        """Sizes of axes ``start`` to ``end`` as a 1-D INT64 value; a constant when they are all fixed."""
        dims = None if x.shape is None else list(x.shape)[slice(start, end)]
        if dims is not None and all(isinstance(dim, int) for dim in dims):
            return self.constant(np.asarray(dims, dtype=np.int64))
        options = {"start": start or None, "end": end}
        return self.op.Shape(x, **options)

    def size(self, x: ir.Value, dim: int) -> Size:
        """Size of one axis: an int when fixed, else a 0-D INT64 value."""
        dim = self.axis(x, dim)
        if x.shape is not None and isinstance(x.shape[dim], int):
            return x.shape[dim]  # type: ignore[return-value]
        vector = self.op.Shape(x, start=dim or None, end=dim + 1)
        scalar: ir.Value = self.op.Squeeze(vector, [0])
        scalar.meta["onnx_lab.vector"] = vector
        return scalar

    def sizes(self, x: ir.Value) -> list[Size]:
        return [self.size(x, dim) for dim in range(self.rank(x))]

    def dim(self, dim: Dim) -> Size:
        """A dim of a spec as a size: looked up among the values lowered so far.

        Raises:
            UnsupportedCaseError: the dim is an expression that no value carries.
        """
        if isinstance(dim, int):
            return dim
        found = self._lowerer.carrier_of(dim)
        if found is None:
            self.unsupported("a dim of the result", dim.expr)
        value, axis = found
        return value if axis is None else self.size(value, axis)

    def same_size(self, x: ir.Value, dim: int, y: ir.Value, other_dim: int) -> bool:
        """Whether two axes surely have one size: equal ints, or one symbolic dim."""
        if x.shape is None or y.shape is None:
            return False
        a, b = x.shape[self.axis(x, dim)], y.shape[self.axis(y, other_dim)]
        return a == b and not (isinstance(a, ir.SymbolicDim) and a.value is None)

    def known(self, sizes: Sequence[Size]) -> list[int] | None:
        """The sizes when all of them are fixed, else None."""
        found = [size for size in sizes if isinstance(size, int)]
        return found if len(found) == len(sizes) else None

    def fixed_size(self, x: ir.Value, dim: int, argument: str) -> int:
        """Size of one axis that this lowering needs to know now.

        Raises:
            UnsupportedCaseError: the size is symbolic.
        """
        size = self.size(x, dim)
        if not isinstance(size, int):
            self.unsupported(argument, f"a dynamic size of axis {dim}", "keep this axis static")
        return size

    def fixed(self, number: Any, argument: str) -> Any:
        """A Python number or list that this lowering needs to know now (not a symbolic one)."""
        items = number if isinstance(number, (list, tuple)) else [number]
        if any(isinstance(item, ir.Value) for item in items):
            self.unsupported(argument, "a size known only at run time", "pass a fixed number")
        return number

    # -- axes ---------------------------------------------------------------------------------------

    def rank(self, x: ir.Value) -> int:
        """Number of dims.

        Raises:
            InternalLoweringError: the rank is not known.
        """
        if x.shape is None:
            raise InternalLoweringError(
                f"the lowering of {self.call.key} asked for the rank of a value of unknown shape",
                op=self.call.key,
                source=self.call.source,
            )
        return len(x.shape)

    def axis(self, x: ir.Value, dim: int) -> int:
        """A torch dim as a non-negative axis; a 0-D tensor has the one dim 0 for torch."""
        rank = max(1, self.rank(x))
        return dim + rank if dim < 0 else dim

    def axis_list(self, x: ir.Value, dim: int | Sequence[int] | None) -> list[int]:
        """Torch dims as non-negative axes; None or no dims means all. Empty for a 0-D tensor."""
        rank = self.rank(x)
        if dim is None or (isinstance(dim, (list, tuple)) and not dim):
            return list(range(rank))
        dims = list(dim) if isinstance(dim, (list, tuple)) else [dim]
        return [self.axis(x, one) for one in dims] if rank else []  # type: ignore[arg-type]

    def axes(self, x: ir.Value, dim: int | Sequence[int] | None) -> ir.Value:
        """``axis_list`` as the 1-D INT64 constant that ONNX operators take."""
        return self.constant(np.asarray(self.axis_list(x, dim), dtype=np.int64))

    # -- common rearrangements ----------------------------------------------------------------------

    def unsqueeze(self, x: ir.Value, axes: int | Sequence[int]) -> ir.Value:
        return self.op.Unsqueeze(x, list(axes) if isinstance(axes, (list, tuple)) else [axes])

    def squeeze(self, x: ir.Value, axes: int | Sequence[int]) -> ir.Value:
        return self.op.Squeeze(x, list(axes) if isinstance(axes, (list, tuple)) else [axes])

    def transpose(self, x: ir.Value, perm: Sequence[int]) -> ir.Value:
        """Permute axes; nothing is made for the identity."""
        if list(perm) == list(range(len(perm))):
            return x
        return self.op.Transpose(x, perm=list(perm))

    def swap(self, x: ir.Value, first: int, second: int) -> ir.Value:
        """Exchange two axes."""
        order = list(range(self.rank(x)))
        a, b = self.axis(x, first), self.axis(x, second)
        order[a], order[b] = order[b], order[a]
        return self.transpose(x, order)

    def reshape(self, x: ir.Value, sizes: Sequence[Size]) -> ir.Value:
        """Reshape to ints, symbolic ints and at most one -1; a size 0 means an empty axis, as in torch."""
        allow_zero = 1 if any(isinstance(size, int) and size == 0 for size in sizes) else None
        made: ir.Value = self.op.Reshape(x, self.vector(sizes), allowzero=allow_zero)
        if made.shape is None or any(dim is None for dim in made.shape):
            made.shape = ir.Shape([size if isinstance(size, int) and size >= 0 else None for size in sizes])
        return made

    def flatten(self, x: ir.Value) -> ir.Value:
        """All elements as one axis."""
        return self.reshape(x, [-1])

    def expand(self, x: ir.Value, sizes: Sequence[Size]) -> ir.Value:
        """Broadcast to ``sizes``; -1 keeps an axis. Nothing is made when nothing changes."""
        rank, current = len(sizes), list(x.shape) if x.shape is not None else None
        if (
            current is not None
            and len(current) == rank
            and all(
                isinstance(size, int) and (size == -1 or size == have)
                for size, have in zip(sizes, current, strict=True)
            )
        ):
            return x
        # ONNX Expand broadcasts both ways, so 1 stands for "as it is".
        return self.op.Expand(x, self.vector([1 if isinstance(s, int) and s == -1 else s for s in sizes]))

    def full(self, sizes: Sequence[Size], fill: Number | ir.Value, dtype: ir.DataType) -> ir.Value:
        """A tensor of one repeated value."""
        if isinstance(fill, ir.Value):
            return self.op.Expand(self.cast(fill, dtype), self.vector(sizes))
        if all(isinstance(size, int) for size in sizes) and not sizes:
            return self.constant(fill, dtype)
        content = ir.Tensor(np.asarray([fill]).astype(dtype.numpy()), dtype=dtype)
        made: ir.Value = self.op.ConstantOfShape(self.vector(sizes), value=content)
        made.shape = ir.Shape([size if isinstance(size, int) else None for size in sizes])
        return made

    # -- other lowerings, regions -------------------------------------------------------------------

    def lower(self, key: str, *args: Any, **kwargs: Any) -> Any:
        """Run the lowering of another key on values at hand (the call's own spec stays in ``ctx``)."""
        return self._lowerer.function_for(key, self.call)(self, *args, **kwargs)

    def body(self, region: Region, arguments: Sequence[Any], wrap: Any = None) -> tuple[ir.Graph, list[ir.Value]]:
        """Lower a region without parameters of its own (an If branch): see Lowerer.body."""
        return self._lowerer.branch(region, arguments, wrap)

    def parameter(self, name: str, spec: Spec) -> ir.Value:
        """A value of its own for a parameter of a loop's body.

        Raises:
            UnsupportedCaseError: it is complex.
        """
        if isinstance(spec, ListSpec):
            return ir.Value(name=name, type=ir.SequenceType(ir.TensorType(dtypes.onnx_type(spec.dtype))))
        if isinstance(spec, ScalarSpec):
            value = ir.Value(name=name, type=ir.TensorType(dtypes.SCALAR_TYPE[spec.kind]), shape=ir.Shape([]))
            value.meta["onnx_lab.number"] = True
            return value
        assert isinstance(spec, TensorSpec)
        if spec.dtype in dtypes.COMPLEX_NAMES:
            self.unsupported("a variable of the loop", spec, "keep real and imaginary parts in two variables")
        dims = [dim.expr if isinstance(dim, SymDim) else dim for dim in spec.shape]
        return ir.Value(name=name, type=ir.TensorType(dtypes.onnx_type(spec.dtype)), shape=ir.Shape(dims))

    def loop_body(self, inputs: Sequence[ir.Value], make: Any, name: str) -> ir.Graph:
        """A graph with ``inputs`` whose outputs are what ``make()`` returns, built in its own scope."""
        return self._lowerer.scoped_graph(inputs, make, name)

    def run_region(self, region: Region, arguments: Sequence[Any]) -> list[Any]:
        """Lower a region's calls here and now with ``arguments`` for its parameters."""
        return self._lowerer.inline(region, arguments)


_NUMBER_TYPE = {0: ir.DataType.BOOL, 1: ir.DataType.INT64, 2: ir.DataType.DOUBLE}


def _is_exotic(dtype: ir.DataType) -> bool:
    return dtype.name.startswith(("FLOAT8", "BFLOAT", "UINT4", "INT4", "FLOAT4", "UINT2", "INT2", "FLOAT6"))


def _short(value: Any) -> str:
    if isinstance(value, ir.Value):
        return f"a value of type {value.type} and shape {value.shape}"
    if isinstance(value, SymDim):
        return value.expr
    text = str(value) if not isinstance(value, str) else repr(value)
    return text if len(text) < 120 else text[:117] + "..."
