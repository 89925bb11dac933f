"""The write path: the only code that appends to a log."""
