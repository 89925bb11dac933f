"""What is shown now: next actions, what waits for a person, the live view."""
