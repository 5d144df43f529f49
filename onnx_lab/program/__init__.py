"""The language between front ends and lowerer: plain data, without torch and without onnx."""
