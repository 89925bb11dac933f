"""Create and upgrade the tables of a log database."""
