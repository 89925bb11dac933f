"""The job runner that uses DPDispatcher, and the scripts that it writes."""
