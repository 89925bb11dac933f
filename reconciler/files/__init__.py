"""The files around an attempt: what it found, carried on, left and brought back."""
