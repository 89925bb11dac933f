"""The commands that docs/run/recovery.md suggests for a waiting stage work."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.advice.advice import Advice, advised, fault
from tests.advice.befell import BEFELL
from tests.advice.log_rows import begun
from tests.cli.support import HERE, Place, attempt_data
from tests.cli.test_renamed_host import finished

WORDS = {"TEXT": "the host is gone"}
FOR_SOMEBODY = ("UNSEEN", "FORGOTTEN", "ELSEWHERE", "UNTOLD", "UNREADABLE")
#: Rows of the page docs/run/recovery.md that other tests cover, with the names of these tests.
ELSEWHERE = {
    "UNKNOWN": "asked again: tests/crash/test_waiting.py",
    "MACHINE_REFUSED": "goes on once it is corrected: tests/cluster/test_refused.py",
    "HINDERED": "tried again: tests/crash/test_waiting.py",
    "stranger_at_work": "tests/crash/test_lives.py",
}


def observed(place: Place, verdict: str) -> None:
    """Record an attempt, and a verdict that requires a person."""
    place.done("append", "attempt.started", "--data", attempt_data())
    seen = {"row": 9, "verdict": verdict, "action": "unknown", "reason": "r", "evidence": {}}
    data = {"stage": "stage-1", "attempt": "att-0001", **seen}
    place.done("append", "attempt.observed", "--data", json.dumps(data))


def unblocking(place: Place) -> list[Advice]:
    """Return the commands that `why` suggests to unblock the stage, in their order."""
    (hindrance,) = place.done("why")["hindrances"]
    return [Advice(line) for line in re.findall(r"`wfctl ([^`]*)`", hindrance["unblock"])]


@pytest.mark.parametrize("verdict", FOR_SOMEBODY)
def test_stage_with_an_unknown_end_is_failed_and_retried(tmp_path: Path, verdict: str) -> None:
    """wfctl suggests to fail and retry the stage, because a new check would not help."""
    place = begun(tmp_path)
    observed(place, verdict)
    fail, retry, compute = unblocking(place)
    assert compute.line == "stage compute stage-1"
    for one in (fail, retry):
        assert one.open_words == ["TEXT"]
        assert not fault(one, place.path, WORDS, person_named=False)
    assert place.done("show", "stage-1")["status"] == "ready"


def test_silent_machine_is_asked_again(tmp_path: Path) -> None:
    """If a machine does not answer, wfctl suggests `reconcile`, which contacts it again."""
    place = begun(tmp_path)
    observed(place, "UNKNOWN")
    assert [one.line for one in unblocking(place)] == ["reconcile"]


def test_job_lost_on_another_machine_runs_here(tmp_path: Path) -> None:
    """Each refusal on the way to a dispatch names the next step."""
    place = begun(tmp_path)
    finished(place, "another boot")
    place.done("reconcile")
    for one in unblocking(place)[:2]:
        assert not fault(one, place.path, WORDS, person_named=False)
    refused = place.json("dispatch", "stage-1")
    assert refused.error["code"] == "not_stopped"
    (said,) = [one for one in advised(refused) if one.line.startswith("--root-is moved")]
    assert not fault(said, place.path, WORDS, person_named=False)
    place.done("dispatch", "stage-1", "--dry-run")


@pytest.mark.parametrize("verdict", FOR_SOMEBODY)
def test_next_command_removes_the_hindrance(tmp_path: Path, verdict: str) -> None:
    """`status` suggests `stage fail` for a stage that waits, not another check."""
    place = begun(tmp_path)
    observed(place, verdict)
    (first, *_) = place.json("status").envelope["next_actions"]
    assert first["command"] == "wfctl stage fail stage-1 --error TEXT"


def test_dry_run_suggests_the_next_commands_of_the_current_state(tmp_path: Path) -> None:
    """A dry run suggests no command about the amendment that it did not record."""
    place = begun(tmp_path)
    asked = ("amend", "propose", "--stage", "stage-1", "--type", "stage_skip", "--reason", "no use")
    for line in (asked, ("stage", "prepare", "stage-1"), ("dispatch", "stage-1")):
        answer = place.json(*line, "--dry-run").envelope
        assert answer["next_actions"] == place.json("status").envelope["next_actions"], line
        assert answer["_meta"]["version"] == place.version()


def test_every_documented_incident_has_a_test() -> None:
    """Each incident on the page docs/run/recovery.md is listed with an existing test."""
    page = (HERE / "docs/run/recovery.md").read_text("utf-8")
    table = page.partition("## Incidents")[2].partition("\n## ")[0]
    rows = [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines() if "| " in line]
    assert rows[1:] == list(BEFELL)
    for test in BEFELL.values():
        file, _, name = test.partition("::")
        assert f"def {name}" in (HERE / file).read_text("utf-8"), test


def test_every_documented_verdict_is_covered() -> None:
    """This file tests each verdict on the page, or the table names the file that does."""
    page = (HERE / "docs/run/recovery.md").read_text("utf-8")
    rows = page.partition("## When wfctl waits for you")[2]
    told = set(re.findall(r"^\| `(\w+)`", rows, re.MULTILINE))
    assert told == {*FOR_SOMEBODY, *ELSEWHERE}
