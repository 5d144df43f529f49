"""Running statistics: batch and instance norm write them, though their schemas do not say so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_lab.capture.schema import bound_arguments
from onnx_lab.program.graph import Call, Ref
from onnx_lab.program.spec import DType, TensorSpec

if TYPE_CHECKING:
    from onnx_lab.capture.functionalize import Functionalizer

# The argument that tells whether the statistics are those of the input.
_FLAG = {
    "aten::batch_norm": "training",
    "aten::native_batch_norm": "training",
    "aten::instance_norm": "use_input_stats",
}


def writes_statistics(call: Call) -> bool:
    """Whether this call changes running statistics that it was given."""
    if call.key not in _FLAG:
        return False
    given = bound_arguments(call)
    return bool(given[_FLAG[call.key]]) and isinstance(given["running_mean"], Ref)


def update_statistics(walker: Functionalizer, call: Call) -> None:
    """New = running + momentum · (statistic of the input − running); the variance is the unbiased one.

    Instance norm takes the mean over the batch of the statistics of its samples.
    """
    given = bound_arguments(call)
    x = given["input"]
    spec = walker.specs[x.name]
    assert isinstance(spec, TensorSpec)
    wide = TensorSpec(walker.specs[given["running_mean"].name].dtype, spec.shape)  # type: ignore[union-attr]
    value = walker.read(x)
    if wide.dtype != spec.dtype:
        value = walker.emit(call, "aten::to.dtype", (value, DType(wide.dtype)), wide)
    instances = call.key == "aten::instance_norm"
    dims = list(range(2, spec.rank)) if instances else [0, *range(2, spec.rank)]
    rows = TensorSpec(wide.dtype, spec.shape[:2] if instances else spec.shape[1:2])
    made = walker.emit(call, "aten::var_mean.correction", (value, dims), (rows, rows), {"correction": 1})
    for index, name in ((1, "running_mean"), (0, "running_var")):
        target = given[name]
        own = walker.specs[target.name]
        one = walker.emit(call, "_operator::getitem", (made, index), rows)
        if instances:
            one = walker.emit(call, "aten::mean.dim", (one, [0]), own)
        new = walker.emit(call, "aten::lerp.Scalar", (walker.read(target), one, given["momentum"]), own)
        walker.write(call, target.name, new)
