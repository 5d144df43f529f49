"""Lowerings of the normalization family."""
