"""Copy a log to another database, or export it to a text file that needs no database."""
