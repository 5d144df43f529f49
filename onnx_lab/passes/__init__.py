"""Small, named passes over the ONNX graph; each keeps provenance."""
