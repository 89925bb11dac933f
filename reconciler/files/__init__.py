"""Manage the files of attempts: inputs, leftover files and downloaded results."""
