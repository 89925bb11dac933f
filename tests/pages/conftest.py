"""Shared roots for the page tests, which write nothing in them."""

from tests.exports.conftest import completed, half_way

__all__ = ["completed", "half_way"]
