"""Questions about the history: who changed what, why and when, and whether the log is intact."""
