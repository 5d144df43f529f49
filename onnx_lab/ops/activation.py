"""Lowerings of the activation family."""
