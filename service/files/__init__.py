"""The files that show the log: brought up to date, and compared with it."""
