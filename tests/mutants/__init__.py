"""Mutation tests: the rules and the table of verdicts with one small change at a time."""
