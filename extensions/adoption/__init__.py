"""Import a workflow that was kept by hand."""
