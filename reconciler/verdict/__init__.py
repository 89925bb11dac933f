"""Interpret the evidence: a table maps observations to actions."""
