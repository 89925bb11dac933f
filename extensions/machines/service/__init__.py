"""Phase machines: their log, their commands, their files."""
