"""The page of the machines is made from their definitions."""

from __future__ import annotations

from tests.machines.pages import PATH, text


def test_the_page_is_what_the_definitions_say() -> None:
    """Else: ``python -m tests.machines.pages``."""
    assert PATH.read_text("utf-8") == text()
