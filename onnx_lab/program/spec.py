"""What is known of a value before it exists: dtype and shape, with symbolic dims."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SymDim:
    """A size known only at run time, as an expression over named dims: ``batch``, ``2*time``."""

    expr: str

    def __str__(self) -> str:
        return self.expr


Dim = int | SymDim


@dataclass(frozen=True, slots=True)
class DType:
    """A torch dtype by its name without the prefix: ``float32``, ``int64``, ``bool``."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """dtype and shape of a tensor.

    ``storage`` tells which specs of one graph share memory (equal numbers alias); it takes
    no part in comparisons, and nor do ``strides`` and ``offset``: how the tensor lies in its memory,
    counted in elements, where that is static.
    """

    dtype: str
    shape: tuple[Dim, ...]
    storage: int | None = field(default=None, compare=False, repr=False)
    strides: tuple[int, ...] | None = field(default=None, compare=False, repr=False)
    offset: int = field(default=0, compare=False, repr=False)

    @property
    def rank(self) -> int:
        return len(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class ScalarSpec:
    """A Python number computed in the graph: a SymInt, SymFloat or SymBool.

    Attributes:
        kind: ``int``, ``float`` or ``bool``.
        expr: its expression over named dims, or None when it is unknown.
    """

    kind: str
    expr: str | None = None

    def __str__(self) -> str:
        return f"{self.kind}({self.expr})" if self.expr else self.kind


@dataclass(frozen=True, slots=True)
class ListSpec:
    """A list of tensors whose length only the run tells.

    Attributes:
        dtype: of all tensors in it.
        shape: what all of them have in common: a dim that differs is a SymDim of its own.
    """

    dtype: str
    shape: tuple[Dim, ...]

    def __str__(self) -> str:
        return f"list of {self.dtype}[{', '.join(map(str, self.shape))}]"


# A call with several results has a tuple; None stands for an absent result.
Spec = TensorSpec | ScalarSpec | ListSpec | tuple["Spec", ...] | None


@dataclass(frozen=True, slots=True)
class SymbolInfo:
    """One independent symbolic dim of a captured graph.

    Attributes:
        name: as written in the model.
        lower, upper: inclusive range, ``upper`` None when unbounded.
        origin: ``(input name, axis)`` of its first use, or None for a data-dependent size.
    """

    name: str
    lower: int
    upper: int | None
    origin: tuple[str, int] | None = None
