"""Lowerings of the pooling family."""
