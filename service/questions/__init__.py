"""Questions to the history: who, why, since when, and whether it is whole."""
