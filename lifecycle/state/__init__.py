"""The state of a staged workflow, its statuses and the values derived from it."""
