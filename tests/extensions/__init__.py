"""Tests of the interface between the core and the extensions."""
