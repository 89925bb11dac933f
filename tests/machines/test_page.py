"""The pages about machines are up to date with the definitions and the models."""

from __future__ import annotations

from pathlib import Path

import pytest

from extensions.machines.rules.soundness import load_definition
from service.documents.strict_yaml import load as decoded
from tests.machines import pages, reference
from tests.machines.definition_words import WORDS
from tests.machines.place import MachinePlace


def test_machines_page_is_up_to_date() -> None:
    """If this test fails, run ``python -m tests.machines.pages``."""
    assert pages.PATH.read_text("utf-8") == pages.text()


def test_reference_page_is_up_to_date() -> None:
    """If this test fails, run ``python -m tests.machines.reference``."""
    assert reference.PATH.read_text("utf-8") == reference.text()


@pytest.mark.parametrize("model", WORDS, ids=lambda model: model.__name__)
def test_every_key_is_described(model: type) -> None:
    """The reference page describes each key of a definition, and no other keys."""
    fields = getattr(model, "model_fields")  # noqa: B009 - mypy does not know the attribute
    assert set(WORDS[model]) == {field.alias or name for name, field in fields.items()}


def test_example_of_the_reference_page_runs(place: MachinePlace, tmp_path: Path) -> None:
    """The machine of the page's example runs from its first to its last phase."""
    load_definition(decoded(reference.EXAMPLE))
    file = tmp_path / "paper.yaml"
    file.write_text(reference.EXAMPLE)
    assert place.done("check", str(file))["mermaid"].startswith("stateDiagram-v2")
    place.done("init", "one", "--definition", str(file), "--consent", "trust")
    for status, phase in (("bad", "draft"), ("good", "sign-off")):
        place.done("update", "one", "draft.path=paper.tex")
        place.done("transition", "one", "review")
        place.done("update", "one", f"reviews.ada.status={status}")
        assert place.done("transition", "one", "--auto")["phase"] == phase
    place.refused("GUARD_FAILED", 6, "transition", "one", "submitted")
    place.done("approve", "one", "submission")
    assert place.done("transition", "one", "submitted")["phase"] == "submitted"
