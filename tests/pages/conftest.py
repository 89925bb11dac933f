"""Roots to look at, made once: a page writes nothing in them."""

from tests.exports.conftest import completed, half_way

__all__ = ["completed", "half_way"]
