"""The write path: the only place from which a log grows."""
