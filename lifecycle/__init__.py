"""The rules of a workflow: pure functions of events, commands and state, without I/O."""
