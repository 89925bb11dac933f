"""The root of a workflow on the disk: find it, lock it, and write its files safely."""
