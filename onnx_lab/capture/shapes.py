"""Dynamic shapes as users write them, as torch.export takes them, and the names asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import Dim
from torch.export.dynamic_shapes import _DimHint, _DimHintType

from onnx_lab.capture.signature import CallSignature
from onnx_lab.capture.trees import children_of
from onnx_lab.errors import InputError


@dataclass(frozen=True, slots=True)
class AskedDim:
    """What the user asked of one axis of one input leaf.

    Attributes:
        name: the name to write, None for a dynamic axis without one.
        required: whether freezing the axis is an error (it is for all but ``Dim.AUTO``).
        lower, upper: the range asked for, None when open.
    """

    name: str | None
    required: bool
    lower: int | None = None
    upper: int | None = None


@dataclass(slots=True)
class ShapeRequest:
    """The dynamic shapes of one export.

    Attributes:
        tree: for torch.export, by parameter; None when everything is static.
        asked: by index of the argument leaf, then axis.
        small: whether an asked axis has an example size of 0 or 1, which torch would freeze.
    """

    tree: Any
    asked: dict[int, dict[int, AskedDim]]
    small: bool


def read_request(
    dynamic_shapes: Any, dynamic_axes: Mapping[str, Any] | None, signature: CallSignature, bound: Mapping[str, Any],
    model: Any, args: Any, kwargs: Any,
) -> ShapeRequest:  # fmt: skip
    """Translate ``dynamic_shapes`` or ``dynamic_axes``.

    Raises:
        InputError: both are given, or the tree does not fit the inputs (the message shows the right one).
    """
    if dynamic_shapes is not None and dynamic_axes is not None:
        raise InputError("dynamic_shapes and dynamic_axes are both given", hint="use dynamic_shapes alone")
    if dynamic_axes is not None:
        dynamic_shapes = _from_axes(dynamic_axes, signature, bound)
    if dynamic_shapes is None:
        return ShapeRequest(None, {}, False)
    if hasattr(dynamic_shapes, "dynamic_shapes"):  # ShapesCollection
        dynamic_shapes = dynamic_shapes.dynamic_shapes(model, args, kwargs)
    reader = _Reader(bound, keep_dims=_has_derived(dynamic_shapes))
    return reader.read(dynamic_shapes, signature)


class _Reader:
    def __init__(self, bound: Mapping[str, Any], keep_dims: bool) -> None:
        self._bound = bound
        self._keep_dims = keep_dims
        self._asked: dict[int, dict[int, AskedDim]] = {}
        self._leaf = 0
        self._small = False
        self._sizes: dict[str, tuple[int, str]] = {}

    def read(self, spec: Any, signature: CallSignature) -> ShapeRequest:
        top = self._by_parameter(spec, signature)
        tree = {name: self._walk(value, top.get(name), name) for name, value in self._bound.items()}
        return ShapeRequest(tree, self._asked, self._small)

    def _by_parameter(self, spec: Any, signature: CallSignature) -> dict[str, Any]:
        names = list(self._bound)
        if isinstance(spec, Mapping):
            keywords = next((p.name for p in signature.forward.parameters.values() if p.kind is p.VAR_KEYWORD), None)
            unknown = [key for key in spec if key not in names]
            if unknown and keywords in names and set(unknown) <= set(self._bound[keywords]):
                # forward(**kwargs): the caller's keywords may stand at the top.
                inner = {key: spec[key] for key in unknown}
                spec = {key: value for key, value in spec.items() if key not in unknown} | {keywords: inner}
                unknown = []
            if unknown and not all(spec[key] is None for key in unknown):
                self._fail(f"dynamic_shapes has no input called {unknown[0]!r}")
            return {key: value for key, value in spec.items() if key in names}
        if isinstance(spec, (list, tuple)):
            star = next((p.name for p in signature.forward.parameters.values() if p.kind is p.VAR_POSITIONAL), None)
            if len(spec) > len(names) or (
                star in names and len(names) == 1 and len(spec) == len(self._bound[star]) > 1
            ):
                if star in names and len(spec) == len(self._bound[star]):
                    return {star: tuple(spec)}
                self._fail(f"dynamic_shapes has {len(spec)} entries for {len(names)} inputs")
            return dict(zip(names, spec, strict=False))
        return self._fail(f"dynamic_shapes is a {type(spec).__name__}")

    def _walk(self, value: Any, spec: Any, path: str) -> Any:
        if isinstance(value, torch.Tensor):
            return self._tensor(value, spec, path)
        children = children_of(value)
        if children is None:
            self._leaf += 1
            if spec is not None and not isinstance(spec, _DimHint):
                self._fail(f"{path} is no tensor, but dynamic_shapes gives it {spec!r}")
            return None
        if spec is None:
            made = [self._walk(child, None, f"{path}[{name}]") for name, child in children]
        elif isinstance(spec, Mapping):
            if unknown := [key for key in spec if str(key) not in {name for name, _ in children}]:
                self._fail(f"{path} has nothing called {unknown[0]!r}")
            by_name = {str(key): item for key, item in spec.items()}
            made = [self._walk(child, by_name.get(name), f"{path}[{name}]") for name, child in children]
        elif isinstance(spec, (list, tuple)):
            if len(spec) != len(children):
                self._fail(f"{path} has {len(children)} parts, dynamic_shapes gives {len(spec)}")
            made = [
                self._walk(child, one, f"{path}[{name}]") for (name, child), one in zip(children, spec, strict=True)
            ]
        else:
            self._fail(f"{path} has parts, but dynamic_shapes gives it {spec!r}")
        if isinstance(value, dict):
            return dict(zip(value, made, strict=True))
        return tuple(made) if isinstance(value, tuple) else made

    def _tensor(self, value: torch.Tensor, spec: Any, path: str) -> Any:
        leaf = self._leaf
        self._leaf += 1
        if spec is None:
            return None
        if isinstance(spec, (list, tuple)):
            if len(spec) != value.dim():
                self._fail(f"{path} has {value.dim()} axes, dynamic_shapes gives {len(spec)}")
            spec = dict(enumerate(spec))
        if not isinstance(spec, Mapping):
            self._fail(f"{path} is a tensor: give it {{axis: dim}}, not {spec!r}")
        made = {}
        for axis, dim in spec.items():
            if not isinstance(axis, int) or not -value.dim() <= axis < value.dim():
                self._fail(f"{path} has no axis {axis!r} (it has {value.dim()})")
            at = axis % value.dim()
            made[at] = self._dim(leaf, at, dim, value.shape[at], path)
        return made

    def _dim(self, leaf: int, axis: int, dim: Any, size: int, path: str) -> Any:
        if dim is None or (isinstance(dim, _DimHint) and dim.type is _DimHintType.STATIC):
            return dim
        if isinstance(dim, bool) or not isinstance(dim, (int, str, Dim, _DimHint)):
            self._fail(f"axis {axis} of {path} is {dim!r}: give a name, a Dim, or None")
        if isinstance(dim, int):
            return dim
        asked, passed = self._translate(dim)
        if asked.name is not None:
            self._check_size(asked.name, size, f"axis {axis} of {path}")
        self._asked.setdefault(leaf, {})[axis] = asked
        self._small = self._small or size < 2
        return passed

    def _translate(self, dim: Any) -> tuple[AskedDim, Any]:
        if isinstance(dim, str):
            return AskedDim(dim, True), Dim.DYNAMIC
        if isinstance(dim, _DimHint):
            return AskedDim(None, dim.type is _DimHintType.DYNAMIC, dim.min, dim.max), dim
        lower, upper = getattr(dim, "min", None), getattr(dim, "max", None)
        upper = None if upper is None or upper >= 2**62 else int(upper)
        lower = None if lower is None or lower <= 0 else int(lower)
        asked = AskedDim(dim.__name__, True, lower, upper)
        return asked, dim if self._keep_dims else Dim.DYNAMIC(min=lower, max=upper)

    def _check_size(self, name: str, size: int, where: str) -> None:
        first = self._sizes.setdefault(name, (size, where))
        if first[0] != size:
            raise InputError(
                f"the dim {name!r} has two sizes in the example inputs",
                seen=f"{first[0]} ({first[1]}) and {size} ({where})",
                hint="use different names, or example inputs that agree",
            )

    def _fail(self, what: str) -> Any:
        raise InputError(
            what, seen="dynamic_shapes", hint=f"the tree that fits these inputs is {expected_tree(self._bound)}"
        )


def expected_tree(bound: Mapping[str, Any]) -> str:
    """The dynamic_shapes tree that fits a call, with every axis shown: ``{"x": {0: ..., 1: ...}}``."""

    def show(value: Any) -> str:
        if isinstance(value, torch.Tensor):
            return "{" + ", ".join(f"{axis}: ..." for axis in range(value.dim())) + "}"
        children = children_of(value)
        if children is None:
            return "None"
        if isinstance(value, dict):
            return "{" + ", ".join(f'"{name}": {show(child)}' for name, child in children) + "}"
        inner = ", ".join(show(child) for _, child in children)
        return (
            f"({inner},)"
            if isinstance(value, tuple) and len(children) == 1
            else (f"({inner})" if isinstance(value, tuple) else f"[{inner}]")
        )

    return show(dict(bound))


def _has_derived(spec: Any) -> bool:
    if isinstance(spec, Mapping):
        return any(map(_has_derived, spec.values()))
    if isinstance(spec, (list, tuple)):
        return any(map(_has_derived, spec))
    return type(spec).__name__ in ("_DerivedDim", "_StaticDim")


def _from_axes(axes: Mapping[str, Any], signature: CallSignature, bound: Mapping[str, Any]) -> Any:
    """torch.onnx's ``{input name: {axis: name} or [axes]}`` as a tree by parameter."""
    by_name: dict[str, dict[int, str]] = {}
    for name, spec in axes.items():
        if not isinstance(spec, (Mapping, list, tuple)):
            raise InputError(f"dynamic_axes[{name!r}] is {spec!r}", hint="give {axis: name} or [axes]")
        items = spec.items() if isinstance(spec, Mapping) else [(axis, f"{name}_dim{axis}") for axis in spec]
        by_name[name] = {int(axis): str(dim) for axis, dim in items}
    known = [name for name in signature.names if name is not None]
    unknown = [name for name in by_name if name not in known]
    leaves = iter(signature.names)

    def build(value: Any) -> Any:
        children = children_of(value)
        if isinstance(value, torch.Tensor) or children is None:
            return by_name.get(next(leaves) or "")
        made = [build(child) for _, child in children]
        return dict(zip(value, made, strict=True)) if isinstance(value, dict) else made

    tree = {name: build(value) for name, value in bound.items()}
    if unknown and not any(name in by_name for name in known):
        raise InputError(
            f"dynamic_axes names no input: {', '.join(unknown)}", hint=f"the inputs are {', '.join(known)}"
        )
    return tree


def requested_axes(request: ShapeRequest) -> Sequence[tuple[int, int, AskedDim]]:
    """Every asked axis as ``(leaf, axis, what was asked)``."""
    return [(leaf, axis, dim) for leaf, axes in request.asked.items() for axis, dim in axes.items()]
