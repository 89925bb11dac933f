"""Turn findings into commands, and launch, watch and stop jobs."""
