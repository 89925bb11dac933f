"""Run phase machines of agent protocols."""
