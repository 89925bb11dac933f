"""Verify the outputs of a stage after the end of its job and before its completion."""
