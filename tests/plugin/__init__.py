"""Tests of the plugin: its hooks, its skills, and its installation for a client."""
