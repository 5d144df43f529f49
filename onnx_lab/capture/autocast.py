"""Operands that autocast converts on the fly: the captured program tells only what comes out.

Torch's documentation of torch.amp, "CPU Op-Specific Behavior", lists which operators run in which precision.
"""

from __future__ import annotations

from typing import Any

import torch

from onnx_lab.errors import CaptureError
from onnx_lab.program.op_key import OpKey

_HALF = (torch.bfloat16, torch.float16)
# These run in the lower precision, whatever they are given.
_LOWER = frozenset(
    "conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d _convolution convolution bmm mm "
    "mv matmul linear addmm addmv addr addbmm baddbmm chain_matmul linalg_multi_dot linalg_vecdot einsum lstm gru "
    "rnn_tanh rnn_relu scaled_dot_product_attention".split()
)
# These tell their own type.
_TYPED = frozenset(
    "to _to_copy type_as copy copy_ empty_like zeros_like ones_like full_like rand_like randn_like".split()
)


def operand_dtype(key: OpKey, operands: list[Any], result: Any) -> torch.dtype | None:
    """The dtype in which a call under autocast takes its floating-point operands; None: as they are.

    Args:
        operands: example values of the arguments.
        result: example value of the result, or several of them.

    Raises:
        CaptureError: the program was captured without regard to autocast, as TorchDynamo's is.
    """
    first = result[0] if isinstance(result, (list, tuple)) and result else result
    if not isinstance(first, torch.Tensor) or not first.is_floating_point() or key.name in _TYPED:
        return None
    given = {one.dtype for one in operands if isinstance(one, torch.Tensor) and one.is_floating_point()}
    if first.dtype is torch.float32 and key.name in _LOWER:
        raise CaptureError(
            f"the captured program has {key} in float32 under torch.autocast, where it runs in a lower precision",
            hint="use capture='export', which keeps autocast",
        )
    if not given or given == {first.dtype}:
        return None
    if first.dtype in _HALF:
        return first.dtype if key.name in _LOWER else None
    return first.dtype if given <= set(_HALF) else None
