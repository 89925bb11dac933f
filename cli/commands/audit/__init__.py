"""``wfctl audit …``: questions to the history."""
