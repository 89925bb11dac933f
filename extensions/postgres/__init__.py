"""Store the event log in a database on a PostgreSQL server."""
