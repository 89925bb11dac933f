"""Manage the files of attempts: inputs, carried files, leftover files and downloaded results."""
