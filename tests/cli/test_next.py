"""What leads on stands on every answer of a change, as its last line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import Answer, Place, write_plan
from tests.cli.terminal import answered

PLAN = {
    "workflow_id": "w",
    "stages": [
        {"id": "stage-1", "name": "One", "parameters": {"command": "true", "n": 1}},
        {"id": "stage-2", "name": "Two", "depends_on": ["stage-1"]},
    ],
}
BY_HAND = {"workflow_id": "w", "stages": [{"id": "stage-1", "name": "One"}]}


def following(answer: Answer) -> str:
    """Return the last line of an answer in text, which says what leads on."""
    assert answer.code == 0, answer
    *before, last = answer.out.splitlines()
    assert last.startswith("next: wfctl "), answer.out
    assert not any(line.startswith("next: ") for line in before)
    return last.removeprefix("next: ")


def test_every_change_names_what_comes_next(tmp_path: Path) -> None:
    """It is the first of the next actions that the same answer has in JSON."""
    place = Place(tmp_path)
    plan = str(write_plan(tmp_path, BY_HAND))
    assert following(place.call("init", plan, "--consent", "trust"))
    for line in (
        ["note", "hi"],
        ["session", "start"],
        ["stage", "prepare", "stage-1"],
        ["append", "note.logged", "--data", '{"text": "x"}'],
        ["amend", "propose", "--stage", "stage-1", "--set", "name=New", "--reason", "clearer"],
        ["amend", "approve", "amend-1"],
        ["stage", "fail", "stage-1", "--error", "no"],
        ["stage", "retry", "stage-1", "--fix", "yes"],
        ["session", "end", "--reason", "waiting"],
        ["reconcile"],
    ):
        told = place.call(*line)
        assert told.code == 0, told
        if line != ["session", "start"]:  # its answer is a briefing, with a list of its own
            first = place.json("status").envelope["next_actions"][0]["command"]
            assert following(told).startswith(first), line


def test_an_approval_at_a_terminal_names_what_comes_next(tmp_path: Path) -> None:
    """So a person goes on."""
    place = Place(tmp_path)
    place.done("init", str(write_plan(tmp_path, PLAN)))
    code, shown = answered("y\n", "--root", str(tmp_path), "amend", "approve", "plan")
    assert code == 0, shown
    assert shown.splitlines()[-1].startswith("next: wfctl dispatch stage-1")


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_data_has_no_such_line(tmp_path: Path, form: str) -> None:
    """Programs read it from the envelope; a rehearsal changes nothing, and leads nowhere."""
    place = Place(tmp_path)
    place.done("init", str(write_plan(tmp_path, PLAN)), "--consent", "trust")
    assert "next: " not in place.call("-o", form, "note", "hi").out
    assert "next: " not in place.call("note", "hi", "--dry-run").out
