"""The generated schemas and shapes are up to date."""

from __future__ import annotations

from tests.golden.schemas_on_file import FOLDER, SHAPES, shapes, texts

HOW = "write them anew: python -m tests.golden.schemas_on_file"


def test_schemas_in_the_docs_are_current() -> None:
    """docs/schema has the newest version of each schema, and no older version was removed."""
    on_file = {path.name: path.read_text("utf-8") for path in FOLDER.glob("*.json")}
    expected = texts()
    assert {name: on_file.get(name) for name in expected} == expected, HOW


def test_event_shapes_match_the_models() -> None:
    """The generated shapes, which readers use, match the event models."""
    assert SHAPES.read_text("utf-8") == shapes(), HOW
