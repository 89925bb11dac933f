"""A log moved to another place, or written as lines that need no engine."""
