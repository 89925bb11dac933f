"""Read a log: compute the state now or earlier, and recognise ignored events."""
