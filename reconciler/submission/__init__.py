"""Build the submission file for DPDispatcher from the definition of a stage, and check it."""
