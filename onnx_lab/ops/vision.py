"""Lowerings of the vision family."""
