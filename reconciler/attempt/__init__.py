"""What an attempt is on the disk: its paths, markers, machine and forwarded files."""
