"""What it looks like: pure folds and renderings of the log."""
