"""For a fixed history, wfctl writes exactly the expected files (golden files)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lifecycle.fold.evolve import evolve, fold_events
from lifecycle.payload import models as p
from lifecycle.words.document import STAGE_FIELDS, WORKFLOW_FIELDS
from projections.files import progress_log
from projections.files.state_document import build_document, render_state
from tests.need import HISTORIES, NO_HISTORIES
from tests.projections.story import COMMANDS, PLAN, REST
from tests.projections.support import ACCEPTED, Recorded, decided, folded

GOLDEN = Path(__file__).parents[1] / "golden"
STORIES = {"half-way": COMMANDS, "completed": [*COMMANDS, *REST]}


def files(events: list[Recorded]) -> dict[str, bytes]:
    """Return the content of the state file and of progress.log for the given events."""
    text, state = "", None
    for event, state in fold_events(None, events, {ACCEPTED}):
        text += progress_log.format_line(event, state) or ""
    assert state is not None
    return {"workflow-state.json": render_state(state), "progress.log": text.encode()}


@pytest.mark.parametrize("name", STORIES)
@pytest.mark.parametrize("file", ["workflow-state.json", "progress.log"])
def test_files_match_golden_files(name: str, file: str) -> None:
    """Other programs depend on each byte, so the changelog must mention every difference."""
    made = files(decided(STORIES[name], PLAN))[file]
    assert made.decode() == (GOLDEN / name / file).read_text("utf-8")


def test_document_has_the_fields_of_the_protocol_in_order() -> None:
    """The state file has the protocol's fields in a fixed order, and then all other fields."""
    state = evolve(None, decided([*COMMANDS, *REST], PLAN))
    assert state is not None
    found = build_document(state)
    assert list(found) == [*WORKFLOW_FIELDS, "x-campaign"]
    known = [field for field in STAGE_FIELDS if field != "checkpoint"]
    assert list(found["stages"][0]) == [*known, "x-reviewer"]
    assert list(found["stages"][1]) == list(STAGE_FIELDS)


def test_unfinished_workflow_has_no_workflow_status() -> None:
    """The state file has the field `workflow_status` only after the workflow is completed."""
    assert "workflow_status" not in build_document(folded([]))
    assert build_document(folded([p.WorkflowCompleted(stages=3)]))["workflow_status"] == "completed"


def test_key_order_of_the_plan_is_kept() -> None:
    """The log sorts the keys of objects, but the state file has the order of the plan."""
    state = evolve(None, decided([], PLAN))
    assert state is not None
    found = build_document(state)
    assert list(found["x-campaign"]) == ["zeta", "alpha"]
    assert list(found["stages"][0]["parameters"]["box"]) == ["y", "x"]


def test_document_shows_approved_amendments_only() -> None:
    """The state file has no proposed amendment. An approved one has all fields of the protocol."""
    proposed = p.AmendmentProposed(
        amendment="amend-1",
        kind="parameter_change",
        stage="stage-1",
        description="Colder.",
        changes={"parameters": {"command": {"old": "true", "new": "false"}}},
    )
    assert build_document(folded([proposed]))["amendments"] == []
    found = build_document(folded([proposed, p.AmendmentApproved(amendment="amend-1", version=2)]))
    assert found["version"] == 2
    assert list(found["amendments"][0]) == [
        "id", "version", "timestamp", "type", "stage_id", "description", "changes",
        "invalidated_stages", "approved_by",
    ]  # fmt: skip
    assert found["stages"][0]["parameters"]["command"] == "false"


def test_state_file_is_indented_json() -> None:
    """The file ends with a line break, and letters such as ä are not escaped."""
    content = render_state(folded([])).decode()
    assert json.dumps(json.loads(content), indent=2, ensure_ascii=False) + "\n" == content
    assert "Schmelze äöü" in content


def stored_states() -> list[Any]:
    """Return the paths of real state files, or a skipped test parameter if none exist."""
    found = sorted(HISTORIES.glob("*/*/workflow-state.json"))
    if found:
        return [pytest.param(path, id="/".join(path.parts[-3:-1])) for path in found]
    return [pytest.param(HISTORIES, marks=pytest.mark.skip(reason=NO_HISTORIES))]


@pytest.mark.parametrize("path", stored_states())
def test_field_order_matches_real_files(path: Path) -> None:
    """Fields that a real state file and wfctl have in common are in the same order."""
    real = json.loads(path.read_text("utf-8"))
    assert in_our_order(list(real), WORKFLOW_FIELDS)
    for stage in real["stages"]:
        assert in_our_order(list(stage), STAGE_FIELDS)


def in_our_order(keys: list[str], fields: tuple[str, ...]) -> bool:
    """Return whether the keys that wfctl knows are in wfctl's order.

    The position of ``workflow_status`` is ignored, because it differs between real files.
    """
    shared = [key for key in keys if key in fields and key != "workflow_status"]
    return shared == sorted(shared, key=fields.index) and len(shared) > len(fields) // 2
