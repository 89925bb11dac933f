"""Taking over a workflow that somebody else kept: its files read, judged and made events."""
