"""An agent that does only what it is told next carries any workflow to its end, or to a person.

It knows nothing of wfctl: it takes the first command that no person must decide, puts words in
place of those in capitals, and calls it. It is killed and paused on the way.
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
def test_what_was_computed_and_fails_its_checks_is_led_to_failed(
    tmp_path: Path, parameters: dict[str, Any], fields: dict[str, Any]
) -> None:
    """No loop is there to verify: the next action ends the stage, where its checks fail too."""
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
def test_no_next_action_is_refused(tmp_path: Path, seed: int) -> None:
    """From the first call to the end, or to a person's decision."""
    assert followed(tmp_path, seed)[1] in ("completed", "a person decides")


@pytest.mark.parametrize("seed", rounds(range(10, 60), few=6))
def test_no_next_action_of_fifty_workflows_is_refused(tmp_path: Path, seed: int) -> None:
    """As above, for others."""
    assert followed(tmp_path, seed)[1] in ("completed", "a person decides")
