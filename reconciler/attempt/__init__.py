"""The files of an attempt (one run of a stage's job) on the disk.

This package computes their paths, reads their markers, and describes the machine of the jobs and
the files that are sent to it.
"""
