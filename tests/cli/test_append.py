"""``append``: the command that yields an event, by the same rules as any other way in."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lifecycle.payload.event_types import STAGED
from tests.cli.support import Place, attempt_data, tree, wfctl

ATTEMPT = {"stage": "stage-1", "attempt": "att-0001"}
STARTED = [("attempt.started", json.loads(attempt_data()))]
TMUX = [("attempt.started", json.loads(attempt_data(mode="tmux")))]
LAUNCHED = [*TMUX, ("stage.launched", {**ATTEMPT, "mode": "tmux", "session": "s"})]
COMPUTED = [*STARTED, ("stage.computed", {**ATTEMPT, "exit_code": 0})]
FAILED = [*STARTED, ("stage.failed", {"stage": "stage-1", "error": "it broke"})]
SEEN = {**ATTEMPT, "row": 9, "verdict": "LOST", "action": "lost", "reason": "r", "evidence": {}}

#: Event type → its data, what must come before, and the events that the command yields.
CARRIED_OUT: dict[str, tuple[dict[str, Any], list[tuple[str, Any]], list[str]]] = {
    "stage.prepared": ({"stage": "stage-1"}, [], ["stage.prepared"]),
    "attempt.started": (STARTED[0][1], [], ["stage.prepared", "attempt.started"]),
    "stage.launched": (LAUNCHED[1][1], TMUX, ["stage.launched"]),
    "stage.computed": (COMPUTED[1][1], STARTED, ["stage.computed"]),
    "stage.completed": (
        {"stage": "stage-1", "evidence": "seen"},
        COMPUTED,
        ["stage.completed", "stage.readied"],
    ),
    "stage.failed": (FAILED[1][1], STARTED, ["stage.failed", "stage.blocked"]),
    "stage.retried": ({"stage": "stage-1", "fix": "mended"}, FAILED, ["stage.retried"]),
    "attempt.observed": (SEEN, LAUNCHED, ["attempt.observed"]),
    "attempt.relaunched": (
        {**ATTEMPT, "mode": "tmux", "reason": "gone"},
        LAUNCHED,
        ["attempt.relaunched"],
    ),
    "outputs.recorded": (
        {"stage": "stage-1", "outputs": ["stage-1/out.txt", "a"]},
        [],
        ["outputs.recorded"],
    ),
    "checkpoint.recorded": ({"stage": "stage-1", "checkpoint": 3}, [], ["checkpoint.recorded"]),
    "note.logged": ({"text": "hello"}, [], ["note.logged"]),
    "session.started": ({}, [], ["session.started"]),
    "session.ended": (
        {"reason": "blocked", "next": "ask"},
        [("session.started", {})],
        ["session.ended"],
    ),
}

DOCUMENT = {"workflow_id": "w", "stages": []}
#: Event type → its data, the exit code, and the code of the error.
REFUSED: dict[str, tuple[dict[str, Any], int, str]] = {
    "workflow.created": ({"document": DOCUMENT}, 4, "already_exists"),
    "workflow.imported": ({"document": DOCUMENT}, 4, "already_exists"),
    "line.imported": ({"raw": ["x"], "text": "x", "line": 1}, 5, "no_command"),
    "state.imported": ({"document": DOCUMENT}, 5, "no_command"),
    "workflow.completed": ({"stages": 2}, 5, "no_command"),
    "workflow.reopened": ({"reason": "more to do"}, 5, "no_command"),
    "stage.readied": ({"stage": "stage-2"}, 5, "dependencies_not_met"),
    "stage.invalidated": ({"stage": "stage-1", "amendment": "amend-1"}, 5, "illegal_transition"),
    "stage.skipped": ({"stage": "stage-1", "amendment": "amend-1"}, 6, "needs_consent"),
    "cost.charged": (
        {"stage": "stage-1", "weight": 1.5, "work_class": "async"},
        5,
        "no_command",
    ),
    "stage.blocked": (
        {"stage": "stage-2", "dependency": "stage-1", "dependency_status": "failed"},
        5,
        "no_command",
    ),
    "results.adopted": (
        {"stage": "stage-1", "outputs": [], "reason": "so"},
        5,
        "missing_evidence",
    ),
    "claim.overruled": (
        {
            "stage": "stage-1",
            "attempt": "att-0001",
            "claim": "over",
            "verdict": "MONITORED",
            "reason": "so",
            "proof": {"policy": "trust"},
        },
        5,
        "attempt_mismatch",
    ),
    "files.recorded": ({"scripts": {"check.sh": "0"}}, 5, "no_command"),
    "leftovers.freed": (
        {**ATTEMPT, "paths": ["stage-1/x"], "size": 1},
        5,
        "no_command",
    ),
    "attempt.stopped": ({**ATTEMPT, "ended": ["process 1"], "reason": "so"}, 5, "no_command"),
    "attempt.left": ({**ATTEMPT, "files": []}, 5, "no_command"),
    "tasks.observed": ({**ATTEMPT, "total": 3, "points": "a"}, 5, "no_command"),
    "results.changed": ({"stage": "stage-1", "files": []}, 5, "missing_evidence"),
    "outputs.reused": ({**ATTEMPT, "outputs": []}, 5, "no_command"),
    "outputs.archived": ({"stage": "stage-1", "kept_as": "stage-1.v1"}, 5, "no_command"),
    "amendment.proposed": (
        {"kind": "stage_skip", "stage": "stage-1", "description": "d", "changes": {"name": {}}},
        5,
        "invalid_amendment",
    ),
    "amendment.approved": ({"amendment": "amend-1", "version": 2}, 6, "needs_consent"),
    "amendment.rejected": ({"amendment": "amend-1"}, 3, "unknown_amendment"),
    "drift.detected": ({"file": "progress.log"}, 5, "no_command"),
    "drift.adopted": ({"file": "progress.log"}, 5, "no_command"),
    "drift.reverted": ({"file": "progress.log"}, 5, "no_command"),
    "round.begun": ({"loop": "search", "points": [{"x": 1}], "by": "agent:x"}, 5, "no_command"),
    "loop.stopped": ({"loop": "search", "reason": "enough"}, 3, "unknown_loop"),
}


def append(place: Place, type_: str, data: Any, *more: str) -> Any:
    """Append one event that the rules allow, and return the answer's data."""
    return place.done("append", type_, "--data", json.dumps(data), *more)


def test_every_event_type_is_carried_out_or_refused() -> None:
    """A new type fails here until somebody says which."""
    assert set(CARRIED_OUT) | set(REFUSED) == set(STAGED)
    assert not set(CARRIED_OUT) & set(REFUSED)


@pytest.mark.parametrize("type_", CARRIED_OUT)
def test_append_carries_out_the_command_with_its_consequences(place: Place, type_: str) -> None:
    """What follows from it is in the same append, and names its cause."""
    data, before, expected = CARRIED_OUT[type_]
    for step, given in before:
        append(place, step, given)
    answer = append(place, type_, data)
    assert [event["type"] for event in answer["events"]] == expected
    recorded = place.done("events")[-len(expected) :]
    assert len({event["command_id"] for event in recorded}) == 1
    assert {event["causation_id"] for event in recorded[1:]} <= {recorded[0]["event_id"]}
    assert place.call("replay", "--check").code == 0


@pytest.mark.parametrize("type_", REFUSED)
def test_append_is_refused_where_every_other_way_is(place: Place, type_: str) -> None:
    """By the rules (5) or for want of a person's decision (6); nothing is recorded."""
    data, exit_code, code = REFUSED[type_]
    answer = place.json("append", type_, "--data", json.dumps(data))
    assert (answer.code, answer.error["code"]) == (exit_code, code)
    assert place.version() == 2


def test_append_never_takes_a_proof_of_consent(place: Place) -> None:
    """However it is dressed up."""
    data = {"amendment": "amend-1", "version": 2, "proof": {"signature": "s"}}
    assert place.json("append", "amendment.approved", "--data", json.dumps(data)).code == 6


def test_what_only_the_rules_may_decide_is_decided_by_them(place: Place) -> None:
    """The number of an attempt, of a retry, of a session: what the caller says is not taken."""
    lines = [
        ("attempt.started", {**STARTED[0][1], "attempt": "att-0007"}),
        ("stage.failed", {"stage": "stage-1", "error": "e"}),
        ("stage.retried", {"stage": "stage-1", "fix": "f", "retry": 7}),
        ("session.started", {"number": 41}),
    ]
    yielded = [append(place, *line)["events"] for line in lines]
    assert yielded[0][-1]["data"]["attempt"] == "att-0001"
    assert yielded[2][0]["data"]["retry"] == 1
    assert yielded[3][0]["data"]["number"] == 1


def test_the_stage_may_be_an_option(place: Place) -> None:
    """As an agent would rather type it."""
    answer = place.done("append", "stage.prepared", "--stage", "stage-1")
    assert answer["events"][0]["data"]["stage"] == "stage-1"


def test_data_comes_from_a_word_a_file_or_standard_input(place: Place) -> None:
    """``JSON``, ``@FILE`` and ``-``."""
    file = place.path.parent / "data.json"
    file.write_text('{"text": "from a file"}')
    append(place, "note.logged", {"text": "from a word"})
    place.done("append", "note.logged", "--data", f"@{file}")
    root = ["--root", str(place.path)]
    answer = wfctl(*root, "append", "note.logged", "--data", "-", stdin='{"text": "from stdin"}')
    assert answer.code == 0, answer.err
    assert place.notes() == ["from a word", "from a file", "from stdin"]


BAD: dict[str, tuple[list[str], int, str]] = {
    "neither type nor file": ([], 2, "invalid_option"),
    "both type and file": (["note.logged", "--from", "x"], 2, "invalid_option"),
    "a file and a stage": (["--from", "x", "--stage", "stage-1"], 2, "invalid_option"),
    "an unknown type": (["stage.exploded"], 2, "unknown_event_type"),
    "no data": (["note.logged"], 2, "invalid_payload"),
    "an unknown field": (["note.logged", "--data", '{"text": "t", "x": 1}'], 2, "invalid_payload"),
    "a wrong type": (["note.logged", "--data", '{"text": 1}'], 2, "invalid_payload"),
    "a list": (["note.logged", "--data", "[]"], 2, "invalid_option"),
    "no JSON": (["note.logged", "--data", "{"], 2, "invalid_option"),
    "no number of JSON": (["note.logged", "--data", '{"text": NaN}'], 2, "invalid_option"),
    "a file that is not there": (["note.logged", "--data", "@gone"], 3, "not_found"),
    "lines that are not there": (["--from", "gone"], 3, "not_found"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_appended_is_refused_by_name(place: Place, name: str) -> None:
    """Exit code and code of the error; nothing is recorded."""
    line, exit_code, code = BAD[name]
    answer = place.json("append", *line)
    assert (answer.code, answer.error["code"]) == (exit_code, code)
    assert place.version() == 2


def lines_of(*events: tuple[str, Any]) -> str:
    """Return events as JSON lines."""
    return "".join(json.dumps({"type": t, "data": d}) + "\n" for t, d in events)


def test_lines_are_appended_all_at_once(place: Place) -> None:
    """Each is decided in the state that the one before it leaves; one command, one append."""
    source = place.path.parent / "lines"
    source.write_text("\n" + lines_of(*COMPUTED, ("stage.completed", {**ATTEMPT, "evidence": "e"})))
    place.done("append", "--from", str(source))
    recorded = place.done("events")[2:]
    assert [event["type"] for event in recorded] == [
        "stage.prepared",
        "attempt.started",
        "stage.computed",
        "stage.completed",
        "stage.readied",
    ]
    assert len({event["command_id"] for event in recorded}) == 1


BAD_LINES: dict[str, tuple[str, int]] = {
    "refused by the rules": (lines_of(("stage.retried", {"stage": "stage-1", "fix": "f"})), 5),
    "a person's decision": (lines_of(("amendment.approved", REFUSED["amendment.approved"][0])), 6),
    "no JSON": ("{\n", 2),
    "no event": ('{"text": "hello"}\n', 2),
    "an unknown type": (lines_of(("stage.exploded", {})), 2),
    "bad data": (lines_of(("note.logged", {"text": 1})), 2),
}


@pytest.mark.parametrize("name", BAD_LINES)
def test_one_bad_line_holds_back_them_all(place: Place, name: str) -> None:
    """All or nothing, in the log and in the files."""
    bad, exit_code = BAD_LINES[name]
    source = place.path.parent / "lines"
    source.write_text(lines_of(("note.logged", {"text": "one"})) + bad)
    files = {k: v for k, v in tree(place.path).items() if "events.db" not in k}
    answer = place.json("append", "--from", str(source))
    assert answer.code == exit_code
    if exit_code == 2 and "line " in answer.error["message"]:
        assert "line 2" in answer.error["message"]
    assert place.version() == 2
    assert {k: v for k, v in tree(place.path).items() if "events.db" not in k} == files


def test_lines_may_come_from_standard_input(place: Place) -> None:
    """What one log's ``events -o jsonl`` prints has the shape that another's ``append`` takes."""
    place.done("note", "hello")
    line = place.call("-o", "jsonl", "events", "--type", "note.logged").out
    root = ["--root", str(place.path)]
    assert wfctl(*root, "append", "--from", "-", stdin=line).code == 0
    assert wfctl(*root, "append", "--from", "-", stdin="\n").code == 2
    assert place.notes() == ["hello", "hello"]
