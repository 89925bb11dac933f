"""The last line of every successful change suggests the next command."""

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
    """Return the suggested command from the last line of a text answer."""
    assert answer.code == 0, answer
    *before, last = answer.out.splitlines()
    assert last.startswith("next: wfctl "), answer.out
    assert not any(line.startswith("next: ") for line in before)
    return last.removeprefix("next: ")


def test_every_change_suggests_the_next_command(tmp_path: Path) -> None:
    """The suggestion is the first of the next actions in JSON output."""
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
        if line != ["session", "start"]:  # this command prints a briefing with its own list
            first = place.json("status").envelope["next_actions"][0]["command"]
            assert following(told).startswith(first), line


def test_approval_at_a_terminal_suggests_the_next_command(tmp_path: Path) -> None:
    """After the approval, the last line suggests the command that dispatches the stage."""
    place = Place(tmp_path)
    place.done("init", str(write_plan(tmp_path, PLAN)))
    code, shown = answered("y\n", "--root", str(tmp_path), "amend", "approve", "plan")
    assert code == 0, shown
    assert shown.splitlines()[-1].startswith("next: wfctl dispatch stage-1")


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_json_output_and_dry_run_have_no_next_line(tmp_path: Path, form: str) -> None:
    """JSON output has the next actions in its envelope, and a dry run suggests no command."""
    place = Place(tmp_path)
    place.done("init", str(write_plan(tmp_path, PLAN)), "--consent", "trust")
    assert "next: " not in place.call("-o", form, "note", "hi").out
    assert "next: " not in place.call("note", "hi", "--dry-run").out
