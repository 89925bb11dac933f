"""The job runner that works through DPDispatcher, and the scripts that it leaves."""
