"""A stage with many tasks: its points, the rules for all tasks, and the counts of tasks."""
