"""Front ends: from a model and example inputs to a CapturedGraph."""
