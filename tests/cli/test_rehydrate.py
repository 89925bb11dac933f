"""The briefing of a new session: events since the last action, pending items, and next steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reconciler.briefing.briefing import count_tokens
from reconciler.host.processes import host
from tests.cli.support import PLAN, Place, attempt_data, write_plan

FAILED = ["stage", "fail", "stage-1", "--error", "it broke"]


def start(place: Place, **more: Any) -> None:
    """Record an attempt that was started on this host and wrote no files."""
    known = {"root": str(place.path.resolve()), "host": host(), **more}
    place.done("append", "attempt.started", "--data", attempt_data(**known))


def test_briefing_starts_at_the_last_action_of_a_person_or_agent(place: Place) -> None:
    """The list of later events is empty if the action was the last event."""
    place.done("note", "off to lunch", "--actor", "agent:helper")
    told = place.done("rehydrate")
    assert (told["since"]["actor"], told["since"]["text"]) == ("agent:helper", "off to lunch")
    assert told["since"]["version"] == place.version()
    assert told["meanwhile"] == []


def test_findings_of_the_reconciler_are_later_events(place: Place) -> None:
    """The briefing lists events that the reconciler recorded after the last action."""
    start(place, root="/somewhere/else")
    place.done("reconcile")
    told = place.done("rehydrate")
    assert told["since"]["version"] < told["meanwhile"][0]["version"]
    assert [m["text"] for m in told["meanwhile"]] == [
        (
            "stage-1: att-0001 found ELSEWHERE: "
            "the attempt was launched in another root folder or on another host"
        )
    ]


def test_foreign_line_in_progress_log_is_a_later_event(place: Place) -> None:
    """The briefing shows a line that wfctl did not write, without a time."""
    with (place.path / "progress.log").open("a") as log:
        log.write("I moved the data\n")
    told = place.done("rehydrate")["meanwhile"]
    assert [(m["at"], m["text"]) for m in told] == [(None, "I moved the data")]


def test_attempt_on_another_host_is_a_contradiction(place: Place) -> None:
    """The briefing names the attempt, and the command repairs nothing."""
    start(place, root="/somewhere/else")
    told = place.done("rehydrate")
    assert [(f["stages"], f["attempt"], f["action"]) for f in told["found"]] == [
        ("stage-1", "att-0001", "unknown")
    ]
    assert [c["kind"] for c in told["contradictions"]] == ["elsewhere"]
    assert told["repaired"] == []


def test_failure_waits_for_a_person(place: Place) -> None:
    """The briefing shows the reason and the number of used retries."""
    place.done("stage", "prepare", "stage-1")
    place.done(*FAILED)
    told = place.done("rehydrate")
    assert told["waiting"] == [
        {"kind": "failure", "subjects": "stage-1", "text": "it broke (0 of 3 retries used)"}
    ]


def test_interrupted_preparation_is_repaired(place: Place) -> None:
    """The log records the repair under the reconciler, not under the caller."""
    place.done("stage", "prepare", "stage-1")
    told = place.done("rehydrate", "--actor", "agent:helper")
    assert [r["stages"] for r in told["repaired"]] == ["stage-1"]
    [failed] = place.done("events", "--type", "stage.failed")
    assert failed["actor"] == {"kind": "reconciler", "name": "helper"}


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("more", [[], ["--dry-run"], ["--brief", "300"]])
def test_briefing_of_the_same_state_is_identical(place: Place, form: str, more: list[str]) -> None:
    """Two briefings of the same state are equal, because they contain no current time."""
    start(place, root="/somewhere/else")
    place.done("rehydrate")
    first, second = (place.call("-o", form, "rehydrate", *more) for _ in range(2))
    assert first.code == 0
    assert first.out == second.out


@pytest.mark.parametrize("form", ["text", "json"])
def test_briefing_stays_within_its_budget(place: Place, form: str) -> None:
    """The printed briefing has no more tokens than the budget allows."""
    for number in range(60):
        place.done("note", f"note {number}: " + "all is well " * 9, "--actor", "runner:loop")
    shown = place.call("-o", form, "rehydrate", "--brief", "400").out
    assert count_tokens(shown) <= 400
    assert "events" in shown


def test_budget_that_is_too_small_is_exceeded_with_a_warning(place: Place) -> None:
    """The essential lines are printed, and stderr says that the answer cannot be shortened."""
    start(place, root="/somewhere/else")
    told = place.call("rehydrate", "--brief", "1")
    assert told.code == 0
    assert "stage-1 att-0001 ELSEWHERE" in told.out
    assert "the answer cannot be shortened further" in told.err


def test_briefing_without_a_budget_fits_a_screen(place: Place) -> None:
    """The briefing as text fits on one page, and as JSON it has all events."""
    for number in range(60):
        place.done("note", f"note {number}", "--actor", "runner:loop")
    assert len(place.call("rehydrate").out.splitlines()) <= 48
    assert len(place.done("rehydrate")["meanwhile"]) == 60


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("budget", ["1", "60", "120", "250"])
def test_briefing_always_has_purpose_and_next_command(place: Place, form: str, budget: str) -> None:
    """Even with a small budget, the briefing has the purpose, next command and its reason."""
    for number in range(30):
        place.done("note", f"note {number}: " + "all is well " * 9, "--actor", "runner:loop")
    first = place.json("rehydrate").envelope["next_actions"][0]
    shown = place.call("-o", form, "rehydrate", "--brief", budget).out
    assert "See it melt." in shown
    assert first["command"] in shown
    assert first["reason"] in shown


def empty(value: Any) -> bool:
    """Return whether a JSON value contains an empty value."""
    if isinstance(value, dict):
        return any(one in (None, "", [], {}) or empty(one) for one in value.values())
    return isinstance(value, list) and any(map(empty, value))


def test_brief_answer_has_no_empty_fields_and_one_line(place: Place) -> None:
    """JSON output with a budget is one line and omits empty fields."""
    told = place.json("rehydrate", "--brief", "4000")
    assert not empty(told.envelope)
    assert told.out.count("\n") == 1
    assert place.done("rehydrate")["repaired"] == []


@pytest.mark.parametrize("form", ["text", "json"])
def test_briefing_has_criteria_progress_decision_and_note(tmp_path: Path, form: str) -> None:
    """The briefing shows criteria, task progress, and the last decision and note."""
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
