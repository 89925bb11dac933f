"""Build the state files of phase machines, and text and diagrams about machines."""
