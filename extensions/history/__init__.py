"""Keep the history in SQL tables and answer questions about it."""
