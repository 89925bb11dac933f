"""Sign checkpoints of a log, obtain signatures of witnesses, and prove results."""
