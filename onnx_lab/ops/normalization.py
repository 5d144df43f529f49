"""Normalizations: layer, RMS, group, instance and batch norm, and what decompositions leave of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_lab.lower.context import Context, Size
from onnx_lab.lower.registry import lowering

FLOAT, FLOAT16, BFLOAT16 = ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16
_HALF = (FLOAT16, BFLOAT16)
Parameter = ir.Value | None


def computed_in(ctx: Context, *operands: Parameter) -> ir.DataType:
    """FLOAT where half precision meets float parameters (torch computes in float), else the operands' own type."""
    types = {operand.dtype for operand in operands if operand is not None and operand.dtype is not None}
    return types.pop() if len(types) == 1 else FLOAT


def filled(ctx: Context, sizes: Sequence[Size], fill: int, dtype: ir.DataType) -> ir.Value:
    """A parameter that torch lets one leave out: a plain constant while it is small."""
    known = ctx.known(sizes)
    if known is not None and math.prod(known) <= 4096:
        return ctx.constant(np.full(known, fill, dtype=dtype.numpy()), dtype)
    return ctx.full(sizes, fill, dtype)


def per_channel(ctx: Context, parameter: ir.Value, rank: int) -> ir.Value:
    """A (C,) parameter so that it broadcasts along axis 1 of a tensor of ``rank``."""
    return ctx.unsqueeze(parameter, list(range(1, rank - 1))) if rank > 2 else parameter


def only_first(ctx: Context, made: ir.Value, *others: int) -> tuple[ir.Value]:
    """The normalized tensor, when the statistics beside it are not read."""
    for index in others:
        if ctx.used(index):
            ctx.unsupported("its result", index, "only the normalized tensor can be used")
    return (made,)


# -- over the last axes -----------------------------------------------------------------------------------


@lowering("aten::layer_norm")
def layer_norm(
    ctx: Context,
    input: ir.Value,
    normalized_shape: Sequence[Size],
    weight: Parameter = None,
    bias: Parameter = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> ir.Value:
    return native_layer_norm(ctx, input, normalized_shape, weight, bias, eps)[0]


@lowering("aten::native_layer_norm")
def native_layer_norm(
    ctx: Context, input: ir.Value, normalized_shape: Sequence[Size], weight: Parameter, bias: Parameter, eps: float
) -> tuple[ir.Value, ...]:
    """Also gives mean and 1/std, which keep the normalized axes with size 1 as in torch."""
    dtype = computed_in(ctx, input, weight, bias)
    scale = filled(ctx, normalized_shape, 1, dtype) if weight is None else ctx.cast(weight, dtype)
    operands = [ctx.cast(input, dtype), scale, *([] if bias is None else [ctx.cast(bias, dtype)])]
    attributes = {"axis": -len(normalized_shape), "epsilon": eps}
    if not isinstance(ctx.call.spec, tuple) or not (ctx.used(1) or ctx.used(2)):
        return (ctx.cast(ctx.op.LayerNormalization(*operands, **attributes), input.dtype),)
    if dtype == FLOAT:
        made, mean, deviation = ctx.op.LayerNormalization(*operands, outputs=3, **attributes)
        mean.type = deviation.type = ir.TensorType(FLOAT)
    else:  # the operator gives statistics in float only
        made = ctx.op.LayerNormalization(*operands, **attributes)
        x = ctx.cast(input, FLOAT) if input.dtype in _HALF else input
        axes = list(range(-len(normalized_shape), 0))
        mean = ctx.op.ReduceMean(x, axes, keepdims=1)
        centred = ctx.op.Sub(x, mean)
        variance = ctx.op.ReduceMean(ctx.op.Mul(centred, centred), axes, keepdims=1)
        deviation = ctx.op.Reciprocal(ctx.op.Sqrt(ctx.op.Add(variance, eps)))
    return ctx.cast(made, input.dtype), *(ctx.cast(one, _result_type(ctx, 1)) for one in (mean, deviation))


def _result_type(ctx: Context, index: int) -> ir.DataType:
    """Element type of a statistic: that of the input, or float beside half precision."""
    return FLOAT if getattr(ctx.out_spec(index), "dtype", "") == "float32" else ctx.out_dtype


@lowering("aten::rms_norm")
def rms_norm(
    ctx: Context,
    input: ir.Value,
    normalized_shape: Sequence[Size],
    weight: Parameter = None,
    eps: float | None = None,
) -> ir.Value:
    """Each row becomes x / sqrt(mean(x²) + eps) · weight; half precision is computed in float. Before opset 23."""
    x = ctx.cast(input, FLOAT) if input.dtype in _HALF else input
    axes = list(range(-len(normalized_shape), 0))
    mean_square = ctx.op.ReduceMean(ctx.op.Mul(x, x), axes, keepdims=1)
    made = ctx.op.Div(x, ctx.op.Sqrt(ctx.op.Add(mean_square, _rms_eps(x, eps))))
    return ctx.cast(made if weight is None else ctx.op.Mul(made, ctx.cast(weight, x.dtype)), ctx.out_dtype)


@lowering("aten::rms_norm", since=23)
def rms_norm_23(
    ctx: Context,
    input: ir.Value,
    normalized_shape: Sequence[Size],
    weight: Parameter = None,
    eps: float | None = None,
) -> ir.Value:
    dtype = computed_in(ctx, input, weight)
    scale = filled(ctx, normalized_shape, 1, dtype) if weight is None else ctx.cast(weight, dtype)
    made = ctx.op.RMSNormalization(
        ctx.cast(input, dtype), scale, axis=-len(normalized_shape), epsilon=_rms_eps(input, eps)
    )
    return ctx.cast(made, ctx.out_dtype)


@lowering("aten::_fused_rms_norm")
def fused_rms_norm(
    ctx: Context, input: ir.Value, normalized_shape: Sequence[Size], weight: Parameter, eps: float | None
) -> tuple[ir.Value]:
    return only_first(ctx, ctx.lower("aten::rms_norm", input, normalized_shape, weight, eps), 1)


def _rms_eps(x: ir.Value, eps: float | None) -> float:
    """Torch's default is the machine epsilon of the type in which it computes: double, else float."""
    if eps is not None:
        return float(eps)
    return float(np.finfo(np.float64 if x.dtype == ir.DataType.DOUBLE else np.float32).eps)


# -- over groups of channels ------------------------------------------------------------------------------


@lowering("aten::group_norm")
def group_norm(
    ctx: Context,
    input: ir.Value,
    num_groups: int,
    weight: Parameter = None,
    bias: Parameter = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> ir.Value:
    """InstanceNormalization over groups seen as channels.

    GroupNormalization says the same in one operator, but ONNX Runtime has no kernel for it on CPU: the
    operators into which it expands take twice the time.
    """
    dtype = computed_in(ctx, input, weight, bias)
    grouped = ctx.op.Reshape(ctx.cast(input, dtype), _grouped_shape(ctx, input, num_groups))
    made = ctx.op.Reshape(_standardized(ctx, grouped, num_groups, eps), ctx.shape(input))
    made.shape = input.shape
    return ctx.cast(_affine(ctx, made, weight, bias), input.dtype)


def _affine(ctx: Context, x: ir.Value, weight: Parameter, bias: Parameter) -> ir.Value:
    """That is x · weight + bias, both per channel."""
    rank = ctx.rank(x)
    if weight is not None:
        x = ctx.op.Mul(x, per_channel(ctx, ctx.cast(weight, x.dtype), rank))
    if bias is not None:
        x = ctx.op.Add(x, per_channel(ctx, ctx.cast(bias, x.dtype), rank))
    return x


def _grouped_shape(ctx: Context, input: ir.Value, num_groups: int) -> ir.Value:
    """(N, groups, elements of a group); 0 keeps N. The last is inferred when an axis is dynamic."""
    known = ctx.known(ctx.sizes(input)[1:])
    return ctx.constant([0, num_groups, -1 if known is None else math.prod(known) // num_groups])


def _standardized(ctx: Context, x: ir.Value, channels: Size, eps: float) -> ir.Value:
    """Each (sample, channel) with mean 0 and variance 1. ONNX Runtime's InstanceNormalization takes no double."""
    dtype = x.dtype or FLOAT
    if dtype != ir.DataType.DOUBLE:
        scale, shift = filled(ctx, [channels], 1, dtype), filled(ctx, [channels], 0, dtype)
        return ctx.op.InstanceNormalization(x, scale, shift, epsilon=eps)
    axes = list(range(2, ctx.rank(x)))
    centred = ctx.op.Sub(x, ctx.op.ReduceMean(x, axes, keepdims=1))
    variance = ctx.op.ReduceMean(ctx.op.Mul(centred, centred), axes, keepdims=1)
    return ctx.op.Div(centred, ctx.op.Sqrt(ctx.op.Add(variance, eps)))


@lowering("aten::native_group_norm")
def native_group_norm(
    ctx: Context,
    input: ir.Value,
    weight: Parameter,
    bias: Parameter,
    N: Size,
    C: Size,
    HxW: Size,
    group: int,
    eps: float,
) -> tuple[ir.Value, ...]:
    """Also gives mean and 1/std of each group, (N, groups)."""
    made = group_norm(ctx, input, group, weight, bias, eps)
    if not (ctx.used(1) or ctx.used(2)):
        return (made,)
    x = ctx.op.Reshape(ctx.cast(input, FLOAT) if input.dtype in _HALF else input, _grouped_shape(ctx, input, group))
    mean = ctx.op.ReduceMean(x, [2], keepdims=1)
    centred = ctx.op.Sub(x, mean)
    variance = ctx.op.ReduceMean(ctx.op.Mul(centred, centred), [2], keepdims=0)
    deviation = ctx.op.Reciprocal(ctx.op.Sqrt(ctx.op.Add(variance, eps)))
    return made, ctx.cast(ctx.op.Squeeze(mean, [2]), input.dtype), ctx.cast(deviation, input.dtype)


@lowering("aten::instance_norm")
def instance_norm(
    ctx: Context,
    input: ir.Value,
    weight: Parameter,
    bias: Parameter,
    running_mean: Parameter,
    running_var: Parameter,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> ir.Value:
    """Statistics of each (sample, channel); with running statistics it is a batch norm."""
    if not use_input_stats:
        if running_mean is None or running_var is None:
            ctx.unsupported("running_mean", None)
        return _normalized(ctx, input, weight, bias, running_mean, running_var, eps)
    dtype, channels = computed_in(ctx, input, weight, bias), ctx.size(input, 1)
    x = ctx.cast(input, dtype)
    if weight is not None and bias is not None and dtype != ir.DataType.DOUBLE:
        parameters = [ctx.cast(weight, dtype), ctx.cast(bias, dtype)]
        return ctx.cast(ctx.op.InstanceNormalization(x, *parameters, epsilon=eps), input.dtype)
    return ctx.cast(_affine(ctx, _standardized(ctx, x, channels, eps), weight, bias), input.dtype)


# -- batch norm -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BatchStatistics:
    """Of each channel over the batch, in at least float.

    Attributes:
        centred: the input minus its mean.
        mean, variance: of shape (C,); the variance is the biased one.
    """

    centred: ir.Value
    mean: ir.Value
    variance: ir.Value


def batch_statistics(ctx: Context, input: ir.Value) -> BatchStatistics:
    x = ctx.cast(input, FLOAT) if input.dtype in _HALF else input
    rank = ctx.rank(x)
    axes = [axis for axis in range(rank) if axis != 1]
    mean = ctx.op.ReduceMean(x, axes, keepdims=0)
    centred = ctx.op.Sub(x, per_channel(ctx, mean, rank))
    return BatchStatistics(centred, mean, ctx.op.ReduceMean(ctx.op.Mul(centred, centred), axes, keepdims=0))


def _by_batch(ctx: Context, found: BatchStatistics, weight: Parameter, bias: Parameter, eps: float) -> ir.Value:
    """(x − mean) · weight / sqrt(variance + eps) + bias, in the type of the call's result."""
    dtype = found.variance.dtype
    deviation = ctx.op.Sqrt(ctx.op.Add(found.variance, eps))
    scale = ctx.op.Reciprocal(deviation) if weight is None else ctx.op.Div(ctx.cast(weight, dtype), deviation)
    return ctx.cast(_affine(ctx, found.centred, scale, bias), ctx.out_dtype)


def _normalized(
    ctx: Context,
    input: ir.Value,
    weight: Parameter,
    bias: Parameter,
    mean: ir.Value,
    variance: ir.Value,
    eps: float,
) -> ir.Value:
    if ctx.rank(input) < 2:
        ctx.unsupported("input", input, "batch norm needs an axis of channels")
    dtype = computed_in(ctx, input, weight, bias, mean, variance)
    channels = [ctx.size(input, 1)]
    scale = filled(ctx, channels, 1, dtype) if weight is None else ctx.cast(weight, dtype)
    shift = filled(ctx, channels, 0, dtype) if bias is None else ctx.cast(bias, dtype)
    operands = [ctx.cast(input, dtype), scale, shift, ctx.cast(mean, dtype), ctx.cast(variance, dtype)]
    return ctx.cast(ctx.op.BatchNormalization(*operands, epsilon=eps), input.dtype)


@lowering("aten::batch_norm")
def batch_norm(
    ctx: Context,
    input: ir.Value,
    weight: Parameter,
    bias: Parameter,
    running_mean: Parameter,
    running_var: Parameter,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> ir.Value:
    """Running statistics in evaluation; those of this batch in training, or where none are kept."""
    if not training and running_mean is not None and running_var is not None:
        return _normalized(ctx, input, weight, bias, running_mean, running_var, eps)
    return _by_batch(ctx, batch_statistics(ctx, input), weight, bias, eps)


@lowering("aten::native_batch_norm")
def native_batch_norm(
    ctx: Context,
    input: ir.Value,
    weight: Parameter,
    bias: Parameter,
    running_mean: Parameter,
    running_var: Parameter,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[ir.Value]:
    made = batch_norm(ctx, input, weight, bias, running_mean, running_var, training, momentum, eps, False)
    return only_first(ctx, made, 1, 2)


@lowering("aten::_native_batch_norm_legit_no_training")
def batch_norm_no_training(
    ctx: Context,
    input: ir.Value,
    weight: Parameter,
    bias: Parameter,
    running_mean: ir.Value,
    running_var: ir.Value,
    momentum: float,
    eps: float,
) -> tuple[ir.Value]:
    return only_first(ctx, _normalized(ctx, input, weight, bias, running_mean, running_var, eps), 1, 2)


@lowering("aten::_native_batch_norm_legit.no_stats")
def batch_norm_no_stats(
    ctx: Context, input: ir.Value, weight: Parameter, bias: Parameter, training: bool, momentum: float, eps: float
) -> tuple[ir.Value]:
    return only_first(ctx, _by_batch(ctx, batch_statistics(ctx, input), weight, bias, eps), 1, 2)


@lowering("aten::_native_batch_norm_legit_functional")
def batch_norm_functional(
    ctx: Context,
    input: ir.Value,
    weight: Parameter,
    bias: Parameter,
    running_mean: ir.Value,
    running_var: ir.Value,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[ir.Value | None, ...]:
    """Also gives the running statistics after this batch (with the unbiased variance)."""
    if not training:
        made = _normalized(ctx, input, weight, bias, running_mean, running_var, eps)
        return (*only_first(ctx, made, 1, 2), None, None, running_mean, running_var)
    found = batch_statistics(ctx, input)
    made = _by_batch(ctx, found, weight, bias, eps)
    only_first(ctx, made, 1, 2)
    sizes = [size for axis, size in enumerate(ctx.sizes(input)) if axis != 1]
    count = ctx.cast(ctx.op.ReduceProd(ctx.vector(sizes), keepdims=0), FLOAT)
    unbiased = ctx.op.Mul(found.variance, ctx.op.Div(count, ctx.op.Sub(count, 1.0)))
    mean, variance = _moved(ctx, running_mean, found.mean, momentum), _moved(ctx, running_var, unbiased, momentum)
    return made, None, None, mean, variance


def _moved(ctx: Context, running: ir.Value, found: ir.Value, momentum: float) -> ir.Value:
    """(1 − momentum) · running + momentum · found."""
    found = ctx.cast(found, running.dtype)
    return ctx.op.Add(ctx.op.Mul(running, 1.0 - momentum), ctx.op.Mul(found, float(momentum)))


# -- weights ----------------------------------------------------------------------------------------------


@lowering("aten::_weight_norm")
def weight_norm(ctx: Context, v: ir.Value, g: ir.Value, dim: int = 0) -> ir.Value:
    """The weight g · v / ‖v‖, the norm over all axes but ``dim`` (over all for -1)."""
    axes = [axis for axis in range(ctx.rank(v)) if dim == -1 or axis != ctx.axis(v, dim)]
    return ctx.op.Mul(v, ctx.op.Div(g, ctx.op.ReduceL2(v, axes, keepdims=1)))
