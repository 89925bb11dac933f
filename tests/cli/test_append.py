"""`append` carries out the command for an event type, by the same rules as other commands."""

from __future__ import annotations

import json
import re
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

#: Event type that `append` accepts → its data, the events that must come first, and the recorded
#: events.
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
#: Event type → its data, the exit code, and the error code.
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
    "audit.agreed": (
        {"entry": "3f9c01a", "kind": "script", "subject": "s", "text": "t", "reason": "so"},
        6,
        "needs_consent",
    ),
    "round.begun": ({"loop": "search", "points": [{"x": 1}], "by": "agent:x"}, 5, "no_command"),
    "loop.stopped": ({"loop": "search", "reason": "enough"}, 3, "unknown_loop"),
}


def append(place: Place, type_: str, data: Any, *more: str) -> Any:
    """Append one event that the rules allow, and return the data of the answer."""
    return place.done("append", type_, "--data", json.dumps(data), *more)


def test_every_event_type_is_listed_as_accepted_or_refused() -> None:
    """Each event type is in one of the two tables, so a new type needs an entry."""
    assert set(CARRIED_OUT) | set(REFUSED) == set(STAGED)
    assert not set(CARRIED_OUT) & set(REFUSED)


@pytest.mark.parametrize("type_", CARRIED_OUT)
def test_append_records_an_event_with_its_consequences(place: Place, type_: str) -> None:
    """The consequences are in the same append and name the event as their cause."""
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
def test_append_is_refused_like_other_commands(place: Place, type_: str) -> None:
    """`append` exits with code 5 if a rule forbids the event, and 6 without a decision."""
    data, exit_code, code = REFUSED[type_]
    answer = place.json("append", type_, "--data", json.dumps(data))
    assert (answer.code, answer.error["code"]) == (exit_code, code)
    assert place.version() == 2


def test_append_refuses_a_proof_of_consent(place: Place) -> None:
    """`append` exits with code 6 for an approval, even if its data include a signature."""
    data = {"amendment": "amend-1", "version": 2, "proof": {"signature": "s"}}
    assert place.json("append", "amendment.approved", "--data", json.dumps(data)).code == 6


def test_append_assigns_numbers_itself(place: Place) -> None:
    """`append` ignores numbers of attempts, retries and sessions in the caller's data."""
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


def test_append_takes_the_stage_as_an_option(place: Place) -> None:
    """`--stage` sets the field `stage` of the data."""
    answer = place.done("append", "stage.prepared", "--stage", "stage-1")
    assert answer["events"][0]["data"]["stage"] == "stage-1"


def test_append_reads_data_from_argument_file_or_standard_input(place: Place) -> None:
    """The option `--data` accepts JSON, ``@FILE`` and ``-``."""
    file = place.path.parent / "data.json"
    file.write_text('{"text": "from a file"}')
    append(place, "note.logged", {"text": "from a word"})
    place.done("append", "note.logged", "--data", f"@{file}")
    root = ["--root", str(place.path)]
    answer = wfctl(*root, "append", "note.logged", "--data", "-", stdin='{"text": "from stdin"}')
    assert answer.code == 0, answer.err
    assert place.notes() == ["from a word", "from a file", "from stdin"]


BAD: dict[str, tuple[list[str], int, str]] = {
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
def test_invalid_append_is_refused_with_an_error_code(place: Place, name: str) -> None:
    """The command exits with the documented code and records nothing."""
    line, exit_code, code = BAD[name]
    answer = place.json("append", *line)
    assert (answer.code, answer.error["code"]) == (exit_code, code)
    assert place.version() == 2


def lines_of(*events: tuple[str, Any]) -> str:
    """Return events as text with one JSON object per line."""
    return "".join(json.dumps({"type": t, "data": d}) + "\n" for t, d in events)


def test_lines_are_appended_in_one_command(place: Place) -> None:
    """Each event is checked in the state after the previous event, and all share one command id."""
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
def test_invalid_line_prevents_the_whole_append(place: Place, name: str) -> None:
    """Neither the log nor the files change."""
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


def test_lines_are_read_from_standard_input(place: Place) -> None:
    """`append` accepts the output of ``events -o jsonl`` as its input."""
    place.done("note", "hello")
    line = place.call("-o", "jsonl", "events", "--type", "note.logged").out
    root = ["--root", str(place.path)]
    assert wfctl(*root, "append", "--from", "-", stdin=line).code == 0
    assert wfctl(*root, "append", "--from", "-", stdin="\n").code == 2
    assert place.notes() == ["hello", "hello"]


NOTES: dict[str, list[str]] = {
    "the text alone": ["note", "hello"],
    "the whole type": ["note.logged", "hello"],
    "a field": ["note.logged", "text=hello"],
    "a JSON object": ["note.logged", '{"text": "hello"}'],
}


@pytest.mark.parametrize("name", NOTES)
def test_data_follows_the_event_type(place: Place, name: str) -> None:
    """After the event type, `append` accepts the text of a note, fields, or a JSON object."""
    place.done("append", *NOTES[name])
    assert place.notes() == ["hello"]


def test_append_accepts_fields_as_arguments(place: Place) -> None:
    """`append` parses a field value as JSON, or keeps it as text if it is not JSON."""
    append(place, *STARTED[0])
    place.done("append", "stage.failed", "stage=stage-1", "error=diverged")
    failed = next(e for e in place.done("events") if e["type"] == "stage.failed")
    assert failed["data"]["error"] == "diverged"
    place.done("append", "checkpoint.recorded", "stage=stage-1", 'checkpoint={"step": 3}')
    assert place.done("events")[-1]["data"]["checkpoint"] == {"step": 3}
    place.done("append", "note", "text=12")
    assert place.notes() == ["12"]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("words", [[], ["-"]])
def test_append_reads_a_json_event_from_standard_input(
    place: Place, words: list[str], indent: int | None
) -> None:
    """The event needs no type argument and may span several lines."""
    event = json.dumps({"type": "note.logged", "data": {"text": "hello"}}, indent=indent)
    answer = wfctl("--root", str(place.path), "append", *words, stdin=event)
    assert answer.code == 0, answer.err
    assert place.notes() == ["hello"]


@pytest.mark.parametrize(
    "words",
    [
        ["note"],
        ["note", "two", "words"],
        ["stage.failed", "stage-1"],
        ["stage.failed", "stage=stage-1", "eror=diverged"],
        ["stage.exploded"],
        ["note.logged", "--text", "hello"],
        ["session.ended"],
    ],
    ids=" ".join,
)
def test_refused_append_suggests_a_valid_example(place: Place, words: list[str]) -> None:
    """The error shows an example whose type, fields and values are valid."""
    answer = place.json("append", *words)
    assert answer.code == 2
    found = re.search(r"`wfctl (append (?!--)[^`]*)`", answer.error["message"])
    assert found, answer.error["message"]
    assert place.call(*found[1].split(), "--dry-run").code in (0, 5)


def test_append_without_arguments_suggests_an_example(place: Place) -> None:
    """The error message contains an example if standard input is empty."""
    answer = wfctl("--root", str(place.path), "append")
    assert answer.code == 2
    assert "`wfctl append note.logged text=hello`" in answer.err
    assert place.version() == 2


def test_refused_append_of_nested_data_suggests_a_file(place: Place) -> None:
    """The example in the error reads nested data with `@FILE`."""
    error = place.json("append", "outputs.recorded").error
    assert "`wfctl append outputs.recorded --data @FILE`" in error["message"]
    assert "example" not in error["data"]
