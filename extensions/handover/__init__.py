"""Pass a workflow on: archives, backups, and copies of the database."""
