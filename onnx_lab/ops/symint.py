"""Lowerings of the symint family."""
