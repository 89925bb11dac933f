"""Tests of the files that an installation of wfctl adds to an environment."""
