"""The state of a staged workflow, its statuses and what follows from it."""
