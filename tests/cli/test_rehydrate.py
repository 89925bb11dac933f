"""What a new session is told: since when, what happened, what waits, and what is next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reconciler.briefing.briefing import tokens
from reconciler.host.processes import host
from tests.cli.support import PLAN, Place, attempt_data, write_plan

FAILED = ["stage", "fail", "stage-1", "--error", "it broke"]


def start(place: Place, **more: Any) -> None:
    """Record an attempt that was begun here and left nothing."""
    known = {"root": str(place.path.resolve()), "host": host(), **more}
    place.done("append", "attempt.started", "--data", attempt_data(**known))


def test_it_begins_with_the_last_act_of_somebody(place: Place) -> None:
    """What an agent did last is where the story begins, and nothing has happened since."""
    place.done("note", "off to lunch", "--actor", "agent:helper")
    told = place.done("rehydrate")
    assert (told["since"]["actor"], told["since"]["text"]) == ("agent:helper", "off to lunch")
    assert told["since"]["version"] == place.version()
    assert told["meanwhile"] == []


def test_what_a_reconciler_found_since_has_happened_meanwhile(place: Place) -> None:
    """Its records are no acts: the next session hears of them."""
    start(place, root="/somewhere/else")
    place.done("reconcile")
    told = place.done("rehydrate")
    assert told["since"]["version"] < told["meanwhile"][0]["version"]
    assert [m["text"] for m in told["meanwhile"]] == [
        "stage-1: att-0001 found ELSEWHERE: it was launched in another root or on another host"
    ]


def test_a_foreign_line_in_the_log_has_happened_meanwhile(place: Place) -> None:
    """What somebody appended by hand is told at once, without a time that nobody recorded."""
    with (place.path / "progress.log").open("a") as log:
        log.write("I moved the data\n")
    told = place.done("rehydrate")["meanwhile"]
    assert [(m["at"], m["text"]) for m in told] == [(None, "I moved the data")]


def test_an_attempt_elsewhere_is_a_contradiction(place: Place) -> None:
    """It is found, named as one, and nothing is done about it."""
    start(place, root="/somewhere/else")
    told = place.done("rehydrate")
    assert [(f["stages"], f["attempt"], f["action"]) for f in told["found"]] == [
        ("stage-1", "att-0001", "unknown")
    ]
    assert [c["kind"] for c in told["contradictions"]] == ["elsewhere"]
    assert told["repaired"] == []


def test_a_failure_waits_for_a_person(place: Place) -> None:
    """It is named with its reason and with what is left of its retries."""
    place.done("stage", "prepare", "stage-1")
    place.done(*FAILED)
    told = place.done("rehydrate")
    assert told["waiting"] == [
        {"kind": "failure", "subjects": "stage-1", "text": "it broke (0 of 3 retries used)"}
    ]


def test_a_preparation_that_died_is_repaired(place: Place) -> None:
    """The repair is recorded as the reconciler's, not as an act of anyone who called."""
    place.done("stage", "prepare", "stage-1")
    told = place.done("rehydrate", "--actor", "agent:helper")
    assert [r["stages"] for r in told["repaired"]] == ["stage-1"]
    [failed] = place.done("events", "--type", "stage.failed")
    assert failed["actor"] == {"kind": "reconciler", "name": "helper"}


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("more", [[], ["--dry-run"], ["--brief", "300"]])
def test_the_same_log_and_disk_give_the_same_bytes(
    place: Place, form: str, more: list[str]
) -> None:
    """Nothing that is printed knows what time it is."""
    start(place, root="/somewhere/else")
    place.done("rehydrate")
    first, second = (place.call("-o", form, "rehydrate", *more) for _ in range(2))
    assert first.code == 0
    assert first.out == second.out


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_budget_is_kept(place: Place, form: str) -> None:
    """What is printed is counted as it stands on the screen."""
    for number in range(60):
        place.done("note", f"note {number}: " + "all is well " * 9, "--actor", "runner:loop")
    shown = place.call("-o", form, "rehydrate", "--brief", "400").out
    assert tokens(shown) <= 400
    assert "events" in shown


def test_a_budget_too_small_is_passed_and_it_is_said(place: Place) -> None:
    """What matters is printed all the same."""
    start(place, root="/somewhere/else")
    told = place.call("rehydrate", "--brief", "1")
    assert told.code == 0
    assert "stage-1 att-0001 ELSEWHERE" in told.out
    assert "nothing more can be left out" in told.err


def test_without_a_budget_it_fits_a_screen(place: Place) -> None:
    """However much has happened, people see one page."""
    for number in range(60):
        place.done("note", f"note {number}", "--actor", "runner:loop")
    assert len(place.call("rehydrate").out.splitlines()) <= 48
    assert len(place.done("rehydrate")["meanwhile"]) == 60


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("budget", ["1", "60", "120", "250"])
def test_purpose_next_command_and_its_reason_are_never_left_out(
    place: Place, form: str, budget: str
) -> None:
    """Without them nobody can go on, however few tokens there are."""
    for number in range(30):
        place.done("note", f"note {number}: " + "all is well " * 9, "--actor", "runner:loop")
    first = place.json("rehydrate").envelope["next_actions"][0]
    shown = place.call("-o", form, "rehydrate", "--brief", budget).out
    assert "See it melt." in shown
    assert first["command"] in shown
    assert first["reason"] in shown


def empty(value: Any) -> bool:
    """Whether a JSON value holds anything empty."""
    if isinstance(value, dict):
        return any(one in (None, "", [], {}) or empty(one) for one in value.values())
    return isinstance(value, list) and any(map(empty, value))


def test_a_brief_answer_holds_nothing_empty_and_is_on_one_line(place: Place) -> None:
    """What is not there is not spelled; a program that wants every key asks without a budget."""
    told = place.json("rehydrate", "--brief", "4000")
    assert not empty(told.envelope)
    assert told.out.count("\n") == 1
    assert place.done("rehydrate")["repaired"] == []


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_brief_holds_what_a_fresh_agent_judges_by(tmp_path: Path, form: str) -> None:
    """Criteria of what is under way, how far its tasks are, the last decision, the last note."""
    points = {"map": {"grid": {"x": [1, 2, 3]}}, "task_outputs": ["out.txt"]}
    points |= {"command": "echo hi > out.txt"}
    criteria = "the film is flat within 2 nm"
    fields = {"success_criteria": criteria, "parameters": points, "outputs": ["stage-1/tasks.csv"]}
    plan = {**PLAN, "stages": [{**PLAN["stages"][0], **fields}]}
    place = Place(tmp_path)
    place.done("init", str(write_plan(tmp_path, plan)), "--consent", "trust")
    asked = ("--stage", "stage-1", "--set", "parameters.t=3", "--reason", "so it is")
    place.done("amend", "propose", *asked)
    place.done("amend", "approve", "amend-1")
    place.call("dispatch", "stage-1", "--sync")
    place.done("note", "the substrate was cleaned twice")
    place.done("session", "start")
    for more in ([], ["--brief", "400"]):
        shown = place.call("-o", form, "rehydrate", *more).out
        assert criteria in shown, shown
        assert "3 of 3 done" in shown
        assert "the substrate was cleaned twice" in shown
        assert "amend-1 approved" in shown
