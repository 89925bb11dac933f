"""Fixtures: workflows to attack, each with its own configuration."""

from __future__ import annotations

from tests.amendments.conftest import _own_environment, keys, signed, trusted

__all__ = ["_own_environment", "keys", "signed", "trusted"]
