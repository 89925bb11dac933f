"""Find the folder of a workflow (its root), lock it, and write its files safely."""
