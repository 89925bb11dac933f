"""Reading a log: folded, at a moment, with what is ignored set aside."""
