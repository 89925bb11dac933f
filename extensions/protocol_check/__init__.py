"""Check a log against the promises of the protocol, independently of the rules."""
