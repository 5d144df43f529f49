"""Writing models: atomically, streamed, with or without external data."""

from onnx_lab.saving.memory import model_proto as model_proto
from onnx_lab.saving.memory import without_weights as without_weights
from onnx_lab.saving.save import save_model as save_model

__all__ = ["model_proto", "save_model", "without_weights"]
