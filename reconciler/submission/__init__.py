"""Build the submission for DPDispatcher from a definition, and check it."""
