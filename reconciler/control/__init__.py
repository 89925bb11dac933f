"""Turn findings about attempts into commands, and launch, watch and stop jobs."""
