"""Lowerings of the elementwise family."""
