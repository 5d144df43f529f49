"""Small models whose weights share memory with torch or numpy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
from onnx_ir import tensor_adapters


def tensor(content: Any, name: str) -> ir.TensorProtocol:
    if isinstance(content, torch.Tensor):
        return tensor_adapters.TorchTensor(content, name=name)
    return content if isinstance(content, ir.Tensor) else ir.Tensor(content, name=name)


def weights_model(weights: Mapping[str, Any]) -> ir.Model:
    """Every weight is an output, by an Identity; there is one input that is passed through."""
    x = ir.Value(name="x", shape=ir.Shape(["n"]), type=ir.TensorType(ir.DataType.FLOAT))
    initializers = []
    for name, content in weights.items():
        made = tensor(content, name)
        initializers.append(ir.Value(name=name, shape=made.shape, type=ir.TensorType(made.dtype), const_value=made))
    nodes = [ir.Node("", "Identity", [value], name=f"copy_{value.name}") for value in [x, *initializers]]
    for node in nodes:
        given = node.inputs[0]
        node.outputs[0].name, node.outputs[0].type = f"{given.name}_out", given.type
        node.outputs[0].shape = given.shape
        node.metadata_props["onnx_lab.call"] = str(given.name)
    outputs = [node.outputs[0] for node in nodes]
    graph = ir.Graph([x], outputs, nodes=nodes, initializers=initializers, opset_imports={"": 21}, name="weights")
    return ir.Model(graph, ir_version=10, producer_name="test", metadata_props={"key": "text"})


def mixed_weights() -> dict[str, Any]:
    """Every kind of memory: strided, tied, narrow, empty, scalar."""
    torch.manual_seed(0)
    base = torch.randn(40, 30)
    return {
        "plain": base,
        "tied": base.detach(),
        "transposed": base.t(),
        "every_other": torch.arange(4000, dtype=torch.int64)[::2],
        "expanded": torch.randn(1, 300).expand(20, 300),
        "negated": torch.view_as_complex(torch.randn(600, 2)).conj().imag,
        "half": torch.randn(700).half(),
        "bfloat": torch.randn(700).bfloat16(),
        "bfloat_strided": torch.randn(70, 20).bfloat16().t(),
        "float8": torch.randn(2000).to(torch.float8_e4m3fn),
        "bools": torch.randn(2000) > 0,
        "small": torch.randn(3),
        "scalar": torch.tensor(2.5),
        "empty": torch.zeros(0, 4),
        "int4": ir.Tensor((np.arange(4001) % 7 - 3).astype(np.int8), dtype=ir.DataType.INT4, name="int4"),
    }
