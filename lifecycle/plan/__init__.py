"""A plan: the document from which a workflow is created."""
