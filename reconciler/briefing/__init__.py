"""What somebody needs who comes back after a lost session."""
