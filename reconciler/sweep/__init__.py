"""Sweeps: stages whose command runs once for each point, as tasks of one attempt."""
