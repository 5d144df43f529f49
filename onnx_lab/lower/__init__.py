"""The machinery that turns captured calls into ONNX nodes; it knows no operator."""
