"""docs/schema holds what the program prints."""

from __future__ import annotations

from tests.golden.schemas_on_file import FOLDER, SHAPES, shapes, texts

HOW = "write them anew: python -m tests.golden.schemas_on_file"


def test_the_schemas_in_the_docs_are_what_the_program_prints() -> None:
    """Every one in its newest version; an older one is never taken away."""
    on_file = {path.name: path.read_text("utf-8") for path in FOLDER.glob("*.json")}
    expected = texts()
    assert {name: on_file.get(name) for name in expected} == expected, HOW


def test_the_shapes_that_reading_asks_for_are_those_of_the_models() -> None:
    """A reader does not load the models."""
    assert SHAPES.read_text("utf-8") == shapes(), HOW
