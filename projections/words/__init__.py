"""Texts for amendments, times, results and foreign text."""
