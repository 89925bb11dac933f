"""Run a small example workflow that is killed and recovered."""
