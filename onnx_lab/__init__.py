"""onnx_lab: export PyTorch models to ONNX, and look at every step."""
