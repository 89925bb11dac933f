"""Tests of the agents' interface: tools over the Model Context Protocol, with real clients."""
