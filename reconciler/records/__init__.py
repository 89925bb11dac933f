"""What an attempt left on the disk in words: its traces, its launch, its last words."""
