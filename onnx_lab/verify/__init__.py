"""ONNX Runtime against eager PyTorch: outputs, and every intermediate value."""
