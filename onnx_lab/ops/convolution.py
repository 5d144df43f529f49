"""Lowerings of the convolution family."""
