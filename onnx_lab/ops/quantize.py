"""Lowerings of the quantize family."""
