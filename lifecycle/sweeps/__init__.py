"""Sweeps: stages that compute one task for each of many points."""
