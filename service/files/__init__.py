"""Update the files generated from the log, and compare them with the log."""
