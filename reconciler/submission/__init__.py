"""What DPDispatcher is given: built from a definition, and checked before."""
