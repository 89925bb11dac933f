"""What a job wrote is there afterwards, and what changed since is seen."""
