"""What the evidence means: a table from what is so to what to do."""
