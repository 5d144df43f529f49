"""Lowerings of the resize family."""
