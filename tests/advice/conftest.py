"""Fixture: a workflow with a separate home folder, tmux server and processes."""

from tests.crash.conftest import workflow

__all__ = ["workflow"]
