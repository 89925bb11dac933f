"""The page of the machines is made from their definitions."""

from __future__ import annotations

from pathlib import Path

import pytest

from lifecycle.machines.soundness import load
from service.documents.strict_yaml import load as decoded
from tests.machines import pages, reference
from tests.machines.definition_words import WORDS
from tests.machines.place import MachinePlace


def test_the_page_is_what_the_definitions_say() -> None:
    """Else: ``python -m tests.machines.pages``."""
    assert pages.PATH.read_text("utf-8") == pages.text()


def test_the_reference_is_what_the_models_say() -> None:
    """Else: ``python -m tests.machines.reference``."""
    assert reference.PATH.read_text("utf-8") == reference.text()


@pytest.mark.parametrize("model", WORDS, ids=lambda model: model.__name__)
def test_every_key_has_its_words(model: type) -> None:
    """And no words are of an unknown key."""
    fields = getattr(model, "model_fields")  # noqa: B009 - a model of pydantic, whatever its type
    assert set(WORDS[model]) == {field.alias or name for name, field in fields.items()}


def test_the_example_of_the_page_runs(place: MachinePlace, tmp_path: Path) -> None:
    """From its first phase to its last, with one round of revision."""
    load(decoded(reference.EXAMPLE))
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
