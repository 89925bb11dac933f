"""Fixture: the workflow of the crash tests, whose processes end with the test."""

from __future__ import annotations

from tests.crash.conftest import workflow

__all__ = ["workflow"]
