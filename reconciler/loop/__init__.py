"""Run the loop: take one step of the workflow after another until no work is left."""
