"""The rules of a workflow: pure functions of events, commands and state. They do no I/O."""
