"""Tests of the job side."""
