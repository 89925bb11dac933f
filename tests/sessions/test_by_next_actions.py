"""A caller that runs only suggested actions completes any workflow.

Alternatively, the caller stops when only a person can decide.

The caller knows nothing about wfctl. It takes the first command that needs no person, replaces the
placeholders and runs the command. Sometimes its command is killed or the runner is paused.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.rounds import rounds
from tests.sessions.followed import WORDS, followed
from tests.sessions.support import events, stage, statuses, workflow

pytestmark = pytest.mark.slow


CRITERIA = {"success_criteria": "The film is flat."}


@pytest.mark.parametrize(
    ("parameters", "fields"),
    [
        ({}, {}),
        ({}, CRITERIA),
        ({"verify": "false"}, {}),
    ],
    ids=["by its outputs", "with criteria for a judge", "with a check of its own"],
)
def test_next_action_fails_a_stage_whose_checks_fail(
    tmp_path: Path, parameters: dict[str, Any], fields: dict[str, Any]
) -> None:
    """If no loop runs, the suggested command records the computed stage as failed."""
    place = workflow(tmp_path, stage(1, parameters=parameters, **fields))
    place.done("dispatch", "stage-1")
    place.done("wait", "stage-1")
    (place.path / "stage-1" / "out.txt").write_text("")
    assert statuses(place) == ["post_processing"]
    assert place.json("stage", "complete", "stage-1", "--evidence", "so it is").code == 5
    assert statuses(place) == ["post_processing"]

    [action] = place.json("status").envelope["next_actions"]
    words = shlex.split(action["command"])[1:]
    assert place.json(*(WORDS.get(word, word) for word in words)).code == 0

    assert statuses(place) == ["failed"]
    [failed] = events(place, "stage.failed")
    assert not all(check["passed"] for check in failed["data"]["checks"])
    after = place.json("status").envelope["next_actions"]
    change = "wfctl amend propose --stage stage-1 --set PATH=VALUE --reason TEXT"
    assert change in [one["command"] for one in after]


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_next_actions_are_never_refused(tmp_path: Path, seed: int) -> None:
    """The caller runs suggested actions until the workflow ends or a person must decide."""
    assert followed(tmp_path, seed)[1] in ("completed", "a person decides")


@pytest.mark.parametrize("seed", rounds(range(10, 60), few=0, daily=3))
def test_next_actions_of_fifty_workflows_are_never_refused(tmp_path: Path, seed: int) -> None:
    """The same caller follows the suggested actions of more random workflows."""
    assert followed(tmp_path, seed)[1] in ("completed", "a person decides")
