"""The history as rows of tables."""
