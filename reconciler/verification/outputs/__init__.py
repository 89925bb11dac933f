"""Outputs as files of a known type: whether they can be read, and whether their numbers are."""
