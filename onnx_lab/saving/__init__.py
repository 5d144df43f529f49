"""Writing models: atomically, streamed, with or without external data."""

from onnx_lab.saving.save import model_proto as model_proto
from onnx_lab.saving.save import save_model as save_model
from onnx_lab.saving.save import without_weights as without_weights

__all__ = ["model_proto", "save_model", "without_weights"]
