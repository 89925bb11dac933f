"""A workflow with a home, a tmux server and processes of its own."""

from tests.crash.conftest import workflow

__all__ = ["workflow"]
