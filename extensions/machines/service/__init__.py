"""Read and change phase machines: their logs, their commands and their files."""
