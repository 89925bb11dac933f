"""Read the records of an attempt on the disk: states of its jobs, and launch data."""
