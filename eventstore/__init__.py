"""What happened: an append-only log of hash-chained streams. Knows nothing of stages."""
