"""Render the files that people read, from the state of the workflow."""
