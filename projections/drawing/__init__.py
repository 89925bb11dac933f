"""Lay out graphs, and draw them as SVG and as text."""
