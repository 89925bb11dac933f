"""Screens for the current state: next actions, the inbox, and the live view."""
