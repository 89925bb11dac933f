"""The current view: next actions, items that wait for a person, and the live display."""
