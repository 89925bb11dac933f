"""The loop: session after session, step after step, until nothing is left to do."""
