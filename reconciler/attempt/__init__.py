"""The data of an attempt on the disk: paths, markers, machine and forwarded files."""
