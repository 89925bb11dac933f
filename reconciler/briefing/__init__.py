"""Brief a user or an agent who returns after a lost session."""
