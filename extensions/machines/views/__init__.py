"""The files of the machines' protocols, and pages about machines."""
