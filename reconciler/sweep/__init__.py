"""Sweeps: a stage whose command is run once for each point of its map, as tasks of one attempt."""
