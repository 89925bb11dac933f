"""The workflow fixture of the crash tests, which ends all its processes."""

from __future__ import annotations

from tests.crash.conftest import workflow

__all__ = ["workflow"]
