"""Lowerings of the creation family."""
