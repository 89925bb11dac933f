"""A workflow with its own home folder and processes."""

from tests.crash.conftest import workflow

__all__ = ["workflow"]
