"""Move a log to another place, or write it as lines of text that need no engine."""
