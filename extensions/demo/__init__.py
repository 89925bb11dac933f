"""Run a small example that is killed and recovered."""
