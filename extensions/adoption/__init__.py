"""Import a workflow whose state and log files were kept by hand."""
