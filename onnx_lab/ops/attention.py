"""Lowerings of the attention family."""
