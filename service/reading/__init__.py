"""Reading a log: folded, at a moment, with what counts for nothing set aside."""
