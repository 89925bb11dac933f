"""The command line: thin. No rule lives here."""
