"""Sign checkpoints of a log, have them witnessed, and prove results."""
