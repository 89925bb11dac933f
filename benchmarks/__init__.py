"""How fast the event log is, beside others on the same machine in the same run: `make bench`."""
