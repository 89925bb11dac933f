"""Compute views of the event log, and render them as files, screens and messages."""
