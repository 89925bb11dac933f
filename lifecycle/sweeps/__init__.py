"""A stage of many tasks: its points, what holds for all of them, and how they are counted."""
