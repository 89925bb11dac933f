"""Compare the log with reality: evidence from disk, processes and scheduler, and verdicts."""
