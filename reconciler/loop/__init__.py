"""Run sessions of the loop, step by step, until no work is left."""
