"""Collect the evidence on an attempt at one moment, from this machine and remote machines."""
