"""Fixture: a workflow with its own home folder, which ends all processes of the workflow."""

from tests.crash.conftest import workflow

__all__ = ["workflow"]
