"""What may happen: pure rules over events, commands and state. No clock, no ids, no I/O."""
