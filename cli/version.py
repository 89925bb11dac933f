"""The version of wfctl, in a module that loads nothing else."""

VERSION = "0.1.0"
