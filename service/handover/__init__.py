"""Handing a workflow over: one file that holds it whole, and a root made from it."""
