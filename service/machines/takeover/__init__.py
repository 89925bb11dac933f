"""Machines that were kept by hand, taken over with what is wrong in their files."""
