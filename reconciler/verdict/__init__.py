"""Derive verdicts from evidence: a table gives an action for each kind of situation."""
