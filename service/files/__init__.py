"""Update the files that show the log, and compare them with the log."""
