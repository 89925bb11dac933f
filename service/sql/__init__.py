"""The history as tables, and questions to them in SQL."""
