"""Lowerings of the control_flow family."""
