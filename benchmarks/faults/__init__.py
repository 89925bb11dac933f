"""Fault games: what workflow engines do after a crash, a full disk or a changed file."""
