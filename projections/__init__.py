"""Render the log: pure folds and output formats."""
