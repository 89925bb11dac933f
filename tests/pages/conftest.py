"""Workflow roots that the tests of the web pages share, because these tests change nothing."""

from tests.exports.conftest import completed, half_way

__all__ = ["completed", "half_way"]
