"""An append-only log of hash-chained streams of events, independent of workflows."""
