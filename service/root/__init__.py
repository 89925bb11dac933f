"""The root of a workflow on the disk: found, locked, written safely."""
