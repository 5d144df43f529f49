"""Lowerings of the recurrent family."""
