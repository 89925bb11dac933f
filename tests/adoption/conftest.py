"""Import the `workflow` fixture of the crash tests, which ends its processes."""

from __future__ import annotations

from tests.crash.conftest import workflow

__all__ = ["workflow"]
