"""Complete runs of four shipped machine types, from the first to the last phase."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from tests.cli.support import call
from tests.machines.place import MachinePlace

#: Each test runs with the log in a file, and with the log on a server.
pytestmark = pytest.mark.parametrize("place", ["file", "server"], indirect=True)

Step = tuple[dict[str, Any], str]

TESTED = {"validation": {"testsPass": True}}
FAILED = {"validation": {"testsPass": False}}
DOCUMENTED = {"validation": {"docsUpdated": True}}
DONE = {"tasks": [{"id": "T-1", "status": "complete"}]}
REVIEWED = {"reviews": {"spec-review": {"status": "pass"}, "quality-review": {"status": "pass"}}}
MERGED = {"synthesis": {"prUrl": "https://example.org/1"}}

#: For each type of machine: the fields to write, and the phase that the machine can then enter.
LIVES: dict[str, list[Step]] = {
    "feature": [
        ({"artifacts": {"design": "d.md"}}, "plan"),
        ({"artifacts": {"plan": "p.md"}}, "plan-review"),
        ({"planReview": {"gapsFound": True}}, "plan"),
        ({"artifacts": {"plan": "p.md"}}, "plan-review"),
        ({"planReview": {"approved": True}}, "delegate"),
        (DONE, "review"),
        (REVIEWED, "synthesize"),
        (MERGED, "completed"),
    ],
    "debug": [
        ({"triage": {"symptom": "it falls"}}, "investigate"),
        ({"track": "hotfix"}, "hotfix-implement"),
        ({}, "hotfix-validate"),
        (FAILED, "hotfix-implement"),
        ({}, "hotfix-validate"),
        (TESTED, "completed"),
    ],
    "refactor": [
        ({"explore": {"scopeAssessment": "small"}}, "brief"),
        ({"track": "polish"}, "polish-implement"),
        ({}, "polish-validate"),
        (TESTED, "polish-update-docs"),
        (DOCUMENTED, "completed"),
    ],
    "oneshot": [
        ({"artifacts": {"plan": "p.md"}}, "implementing"),
        ({"oneshot": {"synthesisPolicy": "always"}}, "synthesize"),
        (MERGED, "completed"),
    ],
}

#: For each transition that needs a person's approval: the name of the approval.
APPROVED = {
    ("plan-review", "delegate"): "plan",
    ("hotfix-validate", "completed"): "hotfix",
    ("polish-update-docs", "completed"): "polish",
    ("synthesize", "completed"): "finish",
}


@pytest.mark.few(3)
@pytest.mark.parametrize("type_", LIVES)
def test_machine_runs_from_its_first_to_its_last_phase(place: MachinePlace, type_: str) -> None:
    """wfctl refuses each transition until its guard is met, and ignores a repeated command."""
    place.init("one", type_)
    assert (place.path / ".wfctl/events.db").exists() is ("WFCTL_DATABASE_URL" not in os.environ)
    for number, (content, phase) in enumerate(LIVES[type_]):
        if content:
            place.refused("GUARD_FAILED", 5, "transition", "one", phase)
            place.done("update", "one", "--data", json.dumps(content))
        approved = APPROVED.get((place.phase("one"), phase))
        if approved is not None:
            place.refused("GUARD_FAILED", 6, "transition", "one", phase)
            place.done("approve", "one", approved)
        for repeated in (False, True):
            line = ("transition", "one", phase, "--command-id", f"step {number}")
            assert place.done(*line)["repeated"] is repeated
        assert place.phase("one") == place.json("one.state.json")["phase"] == phase
    place.done("rehydrate", "one")
    for words in (["fsck"], ["replay", "--check"]):
        answer = call("--root", str(place.path), "-o", "json", *words)
        assert (answer.code, answer.data["findings"]) == (0, []), answer
