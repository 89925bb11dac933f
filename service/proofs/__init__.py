"""Checkpoints of a log, their witnesses, and proofs that lead from a result to its event."""
