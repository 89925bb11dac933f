"""The state of a workflow, the statuses of its stages, and values derived from the state."""
