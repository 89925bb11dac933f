"""The demo: a real small workflow, killed and brought back on the way."""
