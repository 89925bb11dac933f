"""The files of a fixed history, byte for byte, and the order of the fields in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lifecycle.fold.evolve import evolve, steps
from lifecycle.payload import models as p
from lifecycle.words.document import STAGE_FIELDS, WORKFLOW_FIELDS
from projections.files import progress_log
from projections.files.state_document import document, render
from tests.need import HISTORIES, NO_HISTORIES
from tests.projections.story import COMMANDS, PLAN, REST
from tests.projections.support import ACCEPTED, Recorded, decided, folded

GOLDEN = Path(__file__).parents[1] / "golden"
STORIES = {"half-way": COMMANDS, "completed": [*COMMANDS, *REST]}


def files(events: list[Recorded]) -> dict[str, bytes]:
    """Return the files of a history."""
    text, state = "", None
    for event, state in steps(None, events, {ACCEPTED}):
        text += progress_log.line(event, state) or ""
    assert state is not None
    return {"workflow-state.json": render(state), "progress.log": text.encode()}


@pytest.mark.parametrize("name", STORIES)
@pytest.mark.parametrize("file", ["workflow-state.json", "progress.log"])
def test_a_fixed_history_makes_these_very_bytes(name: str, file: str) -> None:
    """Readers depend on every one of them; a change here is one for the changelog."""
    made = files(decided(STORIES[name], PLAN))[file]
    assert made.decode() == (GOLDEN / name / file).read_text("utf-8")


def test_the_document_has_the_fields_of_the_protocol_in_its_order() -> None:
    """Top level and stages, what nobody specified at the end."""
    state = evolve(None, decided([*COMMANDS, *REST], PLAN))
    assert state is not None
    found = document(state)
    assert list(found) == [*WORKFLOW_FIELDS, "x-campaign"]
    known = [field for field in STAGE_FIELDS if field != "checkpoint"]
    assert list(found["stages"][0]) == [*known, "x-reviewer"]
    assert list(found["stages"][1]) == list(STAGE_FIELDS)


def test_a_workflow_that_is_not_done_has_no_workflow_status() -> None:
    """The field appears once it is."""
    assert "workflow_status" not in document(folded([]))
    assert document(folded([p.WorkflowCompleted(stages=3)]))["workflow_status"] == "completed"


def test_the_order_in_which_a_person_wrote_is_kept() -> None:
    """The log sorts keys; the file does not."""
    state = evolve(None, decided([], PLAN))
    assert state is not None
    found = document(state)
    assert list(found["x-campaign"]) == ["zeta", "alpha"]
    assert list(found["stages"][0]["parameters"]["box"]) == ["y", "x"]


def test_an_amendment_is_shown_as_the_protocol_has_it() -> None:
    """Once it is approved, with the version that it made; a proposal is not shown."""
    proposed = p.AmendmentProposed(
        amendment="amend-1",
        kind="parameter_change",
        stage="stage-1",
        description="Colder.",
        changes={"parameters": {"command": {"old": "true", "new": "false"}}},
    )
    assert document(folded([proposed]))["amendments"] == []
    found = document(folded([proposed, p.AmendmentApproved(amendment="amend-1", version=2)]))
    assert found["version"] == 2
    assert list(found["amendments"][0]) == [
        "id", "version", "timestamp", "type", "stage_id", "description", "changes",
        "invalidated_stages", "approved_by",
    ]  # fmt: skip
    assert found["stages"][0]["parameters"]["command"] == "false"


def test_the_file_is_json_with_two_spaces_and_a_line_break_at_its_end() -> None:
    """And its letters are as people wrote them."""
    content = render(folded([])).decode()
    assert json.dumps(json.loads(content), indent=2, ensure_ascii=False) + "\n" == content
    assert "Schmelze äöü" in content


def stored_states() -> list[Any]:
    """Return the paths of the real states, or one that says why they are missing."""
    found = sorted(HISTORIES.glob("*/*/workflow-state.json"))
    if found:
        return [pytest.param(path, id="/".join(path.parts[-3:-1])) for path in found]
    return [pytest.param(HISTORIES, marks=pytest.mark.skip(reason=NO_HISTORIES))]


@pytest.mark.parametrize("path", stored_states())
def test_the_order_is_that_of_real_files(path: Path) -> None:
    """The fields that we write and they have are in the same order in both."""
    real = json.loads(path.read_text("utf-8"))
    assert in_our_order(list(real), WORKFLOW_FIELDS)
    for stage in real["stages"]:
        assert in_our_order(list(stage), STAGE_FIELDS)


def in_our_order(keys: list[str], fields: tuple[str, ...]) -> bool:
    """Whether the keys that are among the fields follow each other as the fields do.

    The place of ``workflow_status`` differs between real files.
    """
    shared = [key for key in keys if key in fields and key != "workflow_status"]
    return shared == sorted(shared, key=fields.index) and len(shared) > len(fields) // 2
