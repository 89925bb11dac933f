"""A workflow with a home and processes of its own."""

from tests.crash.conftest import workflow

__all__ = ["workflow"]
