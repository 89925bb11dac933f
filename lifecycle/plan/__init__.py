"""A plan: the document that a workflow is created from."""
