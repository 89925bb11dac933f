"""The version of wfctl: here, and nowhere else."""

VERSION = "0.1.0"
