"""Fixture: the workflow of the crash tests, which ends all processes after a test."""

from __future__ import annotations

from tests.crash.conftest import workflow

__all__ = ["workflow"]
