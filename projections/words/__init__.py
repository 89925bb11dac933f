"""Format amendments, times, results and text from other programs for display."""
