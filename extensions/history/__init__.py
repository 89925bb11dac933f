"""Keep the history of a workflow in SQL tables and answer questions about it."""
