"""The files that people read, rendered from the state."""
