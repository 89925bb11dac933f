"""Verification: what stands between the end of a job and a completed stage."""
