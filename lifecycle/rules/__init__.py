"""The rules: they decide which events a command produces in a given state."""
