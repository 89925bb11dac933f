"""Reading commands change nothing, and can show earlier states."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from tests.cli.support import HERE, Answer, Place, attempt_data, tree, wfctl

READS = {
    "status": ["status"],
    "show": ["show", "stage-1"],
    "log": ["log"],
    "events": ["events"],
    "replay": ["replay"],
    "replay --check": ["replay", "--check"],
    "fsck": ["fsck"],
    "schema": ["schema"],
    "db url": ["db", "url"],
    "run --dry-run": ["run", "--dry-run"],
    "reconcile --dry-run": ["reconcile", "--dry-run"],
    "rehydrate --dry-run": ["rehydrate", "--dry-run"],
    "a dry run": ["stage", "fail", "stage-1", "--error", "broke", "--dry-run"],
}
AT = {"status": ["status"], "show": ["show", "stage-1"], "log": ["log"], "events": ["events"],
      "replay": ["replay"]}  # fmt: skip


@pytest.fixture
def told(place: Place) -> Place:
    """Return a workflow with some history: created, readied, two notes, prepared."""
    for line in (["note", "one"], ["note", "two"], ["stage", "prepare", "stage-1"]):
        place.done(*line)
    return place


@pytest.mark.parametrize("name", READS)
def test_reading_command_changes_no_file(told: Place, name: str) -> None:
    """The root and `.wfctl` stay unchanged, including the database files."""
    before = tree(told.path)
    assert told.json(*READS[name]).code == 0
    assert wfctl("--root", str(told.path), *READS[name]).code == 0
    assert tree(told.path) == before


@pytest.mark.parametrize("name", READS)
def test_reading_command_needs_only_the_log(told: Place, name: str) -> None:
    """The command works without the generated files and does not create them."""
    for file in ("workflow-state.json", "progress.log"):
        (told.path / file).unlink()
    (told.path / ".wfctl/sync.json").unlink()
    before = tree(told.path)
    assert told.json(*READS[name]).code == (7 if name == "replay --check" else 0)
    assert tree(told.path) == before


LINES = {
    "events": ["events"],
    "log": ["log"],
    **{f"audit {question}": ["audit", question] for question in ("times", "amendments", "drift")},
    **{f"audit {question}": ["audit", question] for question in ("refused", "retries", "bypasses")},
    "audit sql": ["audit", "sql", "SELECT 1"],
}


@pytest.mark.parametrize("name", LINES)
def test_record_listing_reports_the_log_position(told: Place, name: str) -> None:
    """The metadata has the workflow, version and position of the last inspected event."""
    events = told.done("events")
    for at, last in (((), events[-1]), (("--at", "2"), events[1])):
        assert told.json(*LINES[name], *at).envelope["_meta"] == {
            "workflow": told.done("status")["workflow"],
            "version": last["version"],
            "position": last["position"],
        }


@pytest.mark.parametrize("name", ["status", "show", "run --dry-run", "fsck"])
def test_state_output_reports_the_log_position(told: Place, name: str) -> None:
    """The position is that of the last event."""
    meta = told.json(*READS[name]).envelope["_meta"]
    assert meta["position"] == told.done("events")[-1]["position"]


def seen(answer: Answer) -> str:
    """Run a command, check that it succeeds, and return its output."""
    assert answer.code == 0, answer
    return answer.out


@pytest.mark.parametrize("name", AT)
def test_state_at_a_version_does_not_change_later(place: Place, name: str) -> None:
    """Events appended after that version do not affect the output of `--at`."""
    at = ["--at", str(place.version())]
    then = seen(place.json(*AT[name], *at))
    for line in (["note", "later"], ["stage", "prepare", "stage-1"]):
        place.done(*line)
    assert seen(place.json(*AT[name], *at)) == then
    assert seen(place.json(*AT[name])) != then


@pytest.mark.parametrize("name", AT)
def test_state_at_a_time_equals_state_at_the_version(told: Place, name: str) -> None:
    """`--at` with an event's time includes this event, in every time zone and notation."""
    events = told.done("events")
    moment = events[3]["occurred_at"]
    by_version = seen(told.json(*AT[name], "--at", "4"))
    for spelt in (moment, moment.replace("Z", "+00:00"), moment.replace("T", " ")):
        assert seen(told.json(*AT[name], "--at", spelt)) == by_version


def test_time_without_offset_is_local(told: Place) -> None:
    """A time without an offset is in the time zone of the caller."""
    moment = told.done("events")[3]["occurred_at"].removesuffix("Z")
    line = ["--root", str(told.path), "-o", "json", "status", "--at", moment]
    far = {"TZ": "Etc/GMT-5"}  # UTC+5, so the same text means a time five hours earlier
    assert wfctl(*line, environ={"TZ": "UTC"}).envelope["_meta"]["version"] == 4
    assert wfctl(*line, environ=far).code == 3


@pytest.mark.parametrize("name", ["status", "show", "replay"])
@pytest.mark.parametrize("at", ["0", "1999-01-01"])
def test_state_before_the_first_event_is_not_found(told: Place, name: str, at: str) -> None:
    """A command with `--at` a time before the first event exits with code 3."""
    answer = told.json(*AT[name], "--at", at)
    assert (answer.code, answer.error["code"]) == (3, "no_workflow_yet")


@pytest.mark.parametrize("name", AT)
@pytest.mark.parametrize("at", ["yesterday", "", "-1", "2026-02-30", "1.5", "0001-01-01T00:00+05"])
def test_invalid_time_is_a_usage_error(told: Place, name: str, at: str) -> None:
    """The message shows both valid notations."""
    answer = told.json(*AT[name], f"--at={at}")
    assert (answer.code, answer.error["code"]) == (2, "invalid_option")
    assert "ISO 8601" in answer.error["message"]


def test_future_version_is_not_found(told: Place) -> None:
    """The error states the current version."""
    for at in ("6", str(10**30)):
        answer = told.json("status", "--at", at)
        assert (answer.code, answer.error["code"]) == (3, "not_found")
        assert "5" in answer.error["message"]


FILTERS = {
    "--type note.logged": ["one", "two"],
    "--limit 2": ["two"],
    "-n 4": ["one", "two"],
    "--since 3": ["two"],
    "--until 3": ["one"],
    "--since 2 --until 3": ["one"],
    "--stage stage-1": [],
    "--actor agent": ["one", "two"],
    "--actor agent:unknown": ["one", "two"],
    "--actor user": [],
}


@pytest.mark.parametrize("name", FILTERS)
def test_events_are_filtered_by_options(told: Place, name: str) -> None:
    """`wfctl events` applies each filter alone, and two filters together."""
    found = told.done("events", *name.split())
    notes = [event["data"]["text"] for event in found if event["type"] == "note.logged"]
    assert notes == FILTERS[name]


def test_follower_prints_later_events_and_ends_at_its_limit(told: Place) -> None:
    """`events --follow` exits after the last event of its limit, without another event."""
    line = [sys.executable, "-m", "cli.main", "--root", str(told.path), "-o", "jsonl"]
    follower = subprocess.Popen(
        [*line, "events", "--follow", "--limit", "6"],
        env={**os.environ, "PYTHONPATH": str(HERE)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert follower.stdout is not None
    with follower:
        first = [json.loads(follower.stdout.readline())["version"] for _ in range(5)]
        told.done("note", "later")
        rest, _ = follower.communicate(timeout=60)
    assert (first, json.loads(rest)["data"]["text"]) == ([1, 2, 3, 4, 5], "later")
    assert follower.returncode == 0


def test_log_of_one_stage_shows_only_its_events(told: Place) -> None:
    """``log --stage`` shows the events of one stage, and ``log -n`` limits their number."""
    lines = told.done("log", "--stage", "stage-1")
    assert [line["stage"] for line in lines] == ["stage-1", "stage-1"]
    assert [line["message"] for line in told.done("log", "-n", "1")] == [lines[-1]["message"]]


def test_log_command_matches_progress_log(told: Place) -> None:
    """The messages of `wfctl log` and of progress.log are identical."""
    messages = [line["message"] for line in told.done("log")]
    assert [line.split("] ", 1)[1] for line in told.log().splitlines()] == messages


def test_show_lists_attempts(place: Place) -> None:
    """`wfctl show` lists the attempts of a stage in its text and JSON output."""
    place.done("append", "attempt.started", "--data", attempt_data())
    data = place.done("show", "stage-1")
    assert data["status"] == "preparing"
    assert data["attempts"][0]["id"] == "att-0001"
    assert "att-0001" in place.call("show", "stage-1").out


def test_replay_prints_the_state_file(told: Place) -> None:
    """`wfctl replay` computes the exact bytes of workflow-state.json from the log."""
    state = (told.path / "workflow-state.json").read_text("utf-8")
    assert told.call("replay").out == state
    assert told.done("replay") == json.loads(state)


CHANGES = {
    "workflow-state.json": ("missing", None),
    "progress.log": ("changed", b"[2026-01-01T00:00:00+00:00] I was here\n"),
}


@pytest.mark.parametrize("file", CHANGES)
def test_changed_file_is_reported_and_rebuilt(told: Place, file: str) -> None:
    """`replay --check` exits with code 7 and a diff if a generated file was edited.

    `replay --rebuild` keeps a copy of the edited file.
    """
    kind, content = CHANGES[file]
    path = told.path / file
    original = path.read_bytes()
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    answer = told.json("replay", "--check")
    assert answer.code == 7
    assert [(f["file"], f["kind"]) for f in answer.data["findings"]] == [(file, kind)]
    assert "(by the log)" in answer.data["findings"][0]["diff"]
    assert any(file in warning for warning in told.done("status")["files"])
    assert told.done("replay", "--rebuild")["written"] == [file]
    assert path.read_bytes() == original
    assert told.call("replay", "--check").code == 0
    kept = [p.read_bytes() for p in (told.path / ".wfctl").glob("drift/*")]
    assert kept == ([content] if content is not None else [])


@pytest.mark.parametrize("line", ["--check --rebuild", "--at 3 --check", "--at 3 --rebuild"])
def test_replay_modes_exclude_each_other(told: Place, line: str) -> None:
    """`replay` with two of its modes is a usage error."""
    assert told.json("replay", *line.split()).code == 2


def test_fsck_names_the_first_bad_version(told: Place) -> None:
    """`fsck` exits with code 7 if an event was changed after its triggers were dropped."""
    assert told.done("fsck")["events"] == 5
    with closing(sqlite3.connect(told.path / ".wfctl/events.db")) as database, database:
        database.execute("DROP TRIGGER events_no_update")
        database.execute("UPDATE events SET body = replace(body, 'one', 'won') WHERE version = 3")
    answer = told.json("fsck")
    assert answer.code == 7
    assert answer.data["findings"][0]["version"] == 3


def test_every_event_type_has_a_schema(place: Place) -> None:
    """`schema` lists the event types, one per line, and refuses an unknown type."""
    schemas = place.done("schema")
    assert schemas["stage.failed"].startswith("The stage failed")
    assert place.done("schema", "stage.failed")["properties"]["error"]
    shown = place.call("schema").out
    assert len(shown) < 8_000
    assert len(shown.splitlines()) == len(schemas)
    assert place.json("schema", "stage.exploded").code == 2
