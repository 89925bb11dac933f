"""Lay out graphs and plots, and draw them as SVG or as text."""
