"""The evidence on an attempt at one moment, from this machine and from others."""
