"""Read a log: fold it, view it at a moment, and replace ignored events."""
