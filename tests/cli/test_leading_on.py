"""A refused command suggests what to do instead."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from tests.cli.support import PLAN, Place, call, write_plan


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Create a workflow of two stages."""
    made = Place(tmp_path / "root")
    made.path.mkdir()
    made.done("init", str(write_plan(tmp_path)), "--consent", "trust")
    return made


def test_refusal_suggests_next_actions(place: Place) -> None:
    """JSON output lists all actions, and text output shows the first one."""
    shown = place.json("dispatch", "stage-2")
    assert shown.code == 5
    [action] = shown.envelope["next_actions"]
    assert action["command"] == "wfctl dispatch stage-1"
    said = place.call("dispatch", "stage-2").err.splitlines()
    assert said[-1] == f"next: wfctl dispatch stage-1  ({action['reason']})"
    Draft202012Validator(json.loads(call("schema", "answer").out)).validate(shown.envelope)


def test_refusal_suggests_at_most_three_actions(tmp_path: Path) -> None:
    """A refused command suggests at most three actions, even if nine stages have failed."""
    stages = [{**PLAN["stages"][0], "id": f"own-{n}", "outputs": [f"own-{n}/o"]} for n in range(9)]
    place = Place(tmp_path)
    place.done("init", str(write_plan(tmp_path, {**PLAN, "stages": stages})), "--consent", "trust")
    for n in range(9):
        place.done("stage", "prepare", f"own-{n}")
        place.done("stage", "fail", f"own-{n}", "--error", "broken")
    shown = place.json("stage", "complete", "own-1")
    assert (shown.code, len(shown.envelope["next_actions"])) == (5, 3)


def test_usage_error_suggests_no_action(place: Place, tmp_path: Path) -> None:
    """An unknown stage and a missing workflow have no next actions."""
    assert "next_actions" not in place.json("show", "stage-9").envelope
    assert "next_actions" not in Place(tmp_path).json("status").envelope


@pytest.mark.parametrize("word", ["…", "...", "TEXT", "what you did", "<text>"])
def test_placeholder_is_refused_as_reason_or_fix(place: Place, word: str) -> None:
    """wfctl refuses a placeholder word as a reason, because the log would keep it."""
    place.done("stage", "prepare", "stage-1")
    place.done("stage", "fail", "stage-1", "--error", "broken")
    before = place.version()
    refused = place.json("stage", "retry", "stage-1", "--fix", word)
    assert (refused.code, refused.error["code"]) == (5, "missing_evidence")
    assert "Describe in a sentence" in refused.error["message"]
    asked = ("--stage", "stage-1", "--type", "stage_rerun", "--reason", word)
    assert "your own words" in place.json("amend", "propose", *asked).error["message"]
    assert place.version() == before
    place.done("stage", "retry", "stage-1", "--fix", "the seed was 0")
