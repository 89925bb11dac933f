"""Run phase machines, which track the work of agents through a series of phases."""
