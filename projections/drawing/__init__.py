"""Graphs laid out, and drawn in SVG and in letters."""
