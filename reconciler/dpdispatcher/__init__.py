"""Run jobs through the program DPDispatcher, and write the scripts that this needs."""
