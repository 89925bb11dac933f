"""The use cases: the only writer of the log and of the files that show it."""
