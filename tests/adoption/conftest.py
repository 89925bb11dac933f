"""The workflow of the crash tests: processes of its own, and none left."""

from __future__ import annotations

from tests.crash.conftest import workflow

__all__ = ["workflow"]
