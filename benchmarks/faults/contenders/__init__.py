"""One adapter for each workflow engine that plays the fault games."""
