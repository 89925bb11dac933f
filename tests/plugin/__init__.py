"""The plugin: its hooks, its skills, and how it is put into a client's settings."""
