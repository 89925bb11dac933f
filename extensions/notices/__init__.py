"""Notify a program or web address of open decisions, failures and the end of a run."""
