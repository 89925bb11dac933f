"""Tests of the reconciler, which compares the log with jobs and processes."""
