"""Append events to a log. No other code does this."""
