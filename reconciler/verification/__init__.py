"""Verify the outputs of a stage after its job has ended and before the stage is completed."""
