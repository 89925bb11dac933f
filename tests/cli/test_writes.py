"""Options of every write: dry run, idempotency key, and expected version."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import PLAN, Place, attempt_data, call, tree, write_plan

#: Command that writes → its command line, and the command lines that must run first.
PREPARED = [["stage", "prepare", "stage-1"]]
STARTED = [["append", "attempt.started", "--data", attempt_data()]]
COMPUTED = [*STARTED, ["stage", "compute", "stage-1"]]
FAILED = [*STARTED, ["stage", "fail", "stage-1", "--error", "it broke"]]
READIED: list[list[str]] = []
WRITES: dict[str, tuple[list[str], list[list[str]]]] = {
    "note": (["note", "hello"], []),
    "append": (["append", "stage.prepared", "--stage", "stage-1"], []),
    "stage prepare": (["stage", "prepare", "stage-1"], []),
    "stage compute": (["stage", "compute", "stage-1"], STARTED),
    "stage complete": (["stage", "complete", "stage-1"], COMPUTED),
    "stage fail": (["stage", "fail", "stage-1", "--error", "it broke"], PREPARED),
    "stage retry": (["stage", "retry", "stage-1", "--fix", "mended"], FAILED),
    "stage checkpoint": (["stage", "checkpoint", "stage-1", '{"step": 3}'], []),
    "stage outputs": (["stage", "outputs", "stage-1", "stage-1/out.txt", "b"], []),
    "dispatch": (["dispatch", "stage-1"], []),
    "stage launch": (["stage", "launch", "stage-1"], PREPARED),
}
#: Commands that start processes. Other tests run these commands with real jobs.
LAUNCHING = {"dispatch", "stage launch"}
RECORDING = [name for name in WRITES if name not in LAUNCHING]


def prepared(place: Place, name: str) -> list[str]:
    """Run the commands that must precede a write, and return the command line of the write."""
    line, before = WRITES[name]
    for step in before:
        place.done(*step)
    (place.path / "stage-1").mkdir(exist_ok=True)
    (place.path / "stage-1/out.txt").write_text("hi\n")
    return line


@pytest.mark.parametrize("name", WRITES)
def test_dry_run_shows_the_events_and_writes_nothing(place: Place, name: str) -> None:
    """The same command without --dry-run appends exactly the events that were shown."""
    line = prepared(place, name)
    before = tree(place.path)
    said = place.done(*line, "--dry-run")
    told = place.call(*line, "--dry-run")
    assert tree(place.path) == before
    assert said["dry_run"] is True
    assert told.code == 0
    for event in said["events"]:
        assert f" {event['type']}: " in told.out
    assert [f"would write {file}" in told.out for file in said["files"]] == [True] * len(
        said["files"]
    )
    if name not in LAUNCHING:
        then = place.done(*line)["events"]
        assert [(e["type"], e["data"]) for e in then] == [
            (e["type"], e["data"]) for e in said["events"]
        ]
        after = tree(place.path)
        written = {path for path in after if after[path] != before.get(path)}
        shown = {path for path in written if not path.startswith(".wfctl")}
        # The state file may stay unchanged, because a second write within the same second gives the
        # same text.
        assert shown <= set(said["files"]) <= shown | {"workflow-state.json"}


def test_dry_run_of_init_writes_nothing(tmp_path: Path) -> None:
    """The answer shows the workflow, and no folder is created."""
    root = tmp_path / "root"
    root.mkdir()
    plan = write_plan(tmp_path)
    answer = call(
        "--root", str(root), "-o", "json", "init", str(plan), "--dry-run", "--consent", "trust"
    )
    types = [event["type"] for event in answer.data["events"]]
    assert types == ["workflow.created", "stage.readied"]
    assert tree(root) == {}


@pytest.mark.parametrize("line", [["run"], ["reconcile"], ["rehydrate"], ["replay", "--rebuild"]])
def test_dry_run_of_the_engine_writes_nothing(place: Place, line: list[str]) -> None:
    """The dry run does not create a missing file that the actual command would write."""
    (place.path / "progress.log").unlink()
    before = tree(place.path)
    assert place.json(*line, "--dry-run").code == 0
    assert tree(place.path) == before


@pytest.mark.parametrize("name", RECORDING)
def test_repeated_command_with_the_same_key_returns_the_first_answer(
    place: Place, name: str
) -> None:
    """A repetition with the same idempotency key appends nothing, even by another actor."""
    line = prepared(place, name)
    first = place.done(*line, "--command-id", "key-1")
    version = place.version()
    again = place.done(*line, "--command-id", "key-1", "--actor", "user:ada")
    assert (first["repeated"], again["repeated"]) == (False, True)
    assert again["events"] == first["events"]
    assert place.version() == version
    assert "already run" in place.call(*line, "--command-id", "key-1").out


@pytest.mark.parametrize("name", RECORDING)
def test_key_of_another_command_is_a_conflict(place: Place, name: str) -> None:
    """The command exits with code 4 and appends nothing."""
    line = prepared(place, name)
    place.done("note", "something else", "--command-id", "key-1")
    version = place.version()
    answer = place.json(*line, "--command-id", "key-1")
    assert (answer.code, answer.error["code"]) == (4, "command_conflict")
    assert place.version() == version


@pytest.mark.parametrize("name", RECORDING)
def test_outdated_expected_version_is_a_conflict(place: Place, name: str) -> None:
    """The error names both versions, and the command with the current version succeeds."""
    line = prepared(place, name)
    version = place.version()
    answer = place.json(*line, "--expected-version", str(version - 1))
    assert (answer.code, answer.error["code"]) == (4, "wrong_expected_version")
    assert answer.error["data"]["expected"] == version - 1
    assert answer.error["data"]["found"] == version
    assert place.version() == version
    assert place.json(*line, "--expected-version", str(version)).code == 0


def test_key_is_checked_before_the_expected_version(place: Place) -> None:
    """A repeated line returns the first answer, although its version is outdated."""
    line = ["note", "hello", "--command-id", "key-1", "--expected-version", "2"]
    first = place.done(*line)
    place.done("note", "meanwhile")
    again = place.done(*line)
    assert (again["repeated"], again["events"]) == (True, first["events"])


def test_command_id_is_the_id_of_the_first_event(place: Place) -> None:
    """The command id is the idempotency key, or the id of the first event without a key."""
    for step in COMPUTED:
        place.done(*step)
    before = place.version()
    place.done("append", "stage.completed", "--data", done_data())
    several = place.done("events")[before:]
    ids = [event["event_id"] for event in several]
    assert len(set(ids)) == len(ids) > 1
    assert {event["command_id"] for event in several} == {ids[0]}
    place.done("note", "hello", "--command-id", "key-1")
    named = place.done("events")[-1]
    assert named["command_id"] == "key-1" != named["event_id"]


def test_refused_command_does_not_use_its_key(place: Place) -> None:
    """The same key works once the command is allowed."""
    line = ["stage", "prepare", "stage-2", "--command-id", "key-1"]
    assert place.json(*line).code == 5
    for step in (*COMPUTED, ["append", "stage.completed", "--data", done_data()]):
        place.done(*step)
    assert place.done(*line)["repeated"] is False


def done_data(stage: str = "stage-1") -> str:
    """Return the data of a completion as JSON."""
    return json.dumps({"stage": stage, "evidence": "looked at it"})


@pytest.mark.parametrize("value", ["-1", "two", ""])
def test_expected_version_must_be_a_number(place: Place, value: str) -> None:
    """A value of --expected-version that is not a number is a usage error."""
    assert place.json("note", "hello", "--expected-version", value).code == 2
    assert place.notes() == []


REFUSED: dict[str, tuple[list[str], str]] = {
    "complete": (["stage", "complete", "stage-1"], "illegal_transition"),
    "compute": (["stage", "compute", "stage-1"], "invalid_payload"),
    "retry": (["stage", "retry", "stage-1", "--fix", "x"], "illegal_transition"),
    "prepare": (["stage", "prepare", "stage-2"], "illegal_transition"),
    "ready": (["stage", "ready", "stage-2"], "dependencies_not_met"),
    "fail": (["stage", "fail", "stage-1", "--error", "x"], "illegal_transition"),
    "unknown": (["stage", "prepare", "stage-9"], "unknown_stage"),
}
EXITS = {"invalid_payload": 2, "unknown_stage": 3}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("dry", [[], ["--dry-run"]], ids=["really", "dry"])
def test_refused_command_changes_no_file_and_no_event(
    place: Place, name: str, dry: list[str]
) -> None:
    """wfctl refuses the command and its dry run in the same way, and changes nothing."""
    line, code = REFUSED[name]
    files = {k: v for k, v in tree(place.path).items() if "events.db" not in k}
    answer = place.json(*line, *dry)
    assert (answer.code, answer.error["code"]) == (EXITS.get(code, 5), code)
    assert {k: v for k, v in tree(place.path).items() if "events.db" not in k} == files
    assert place.types() == ["workflow.created", "stage.readied"]


BAD_VALUES: dict[str, tuple[list[str], int]] = {
    "no JSON": (["stage", "checkpoint", "stage-1", "{"], 1),
    "NaN": (["stage", "checkpoint", "stage-1", "NaN"], 1),
    "infinity": (["stage", "checkpoint", "stage-1", "1e999"], 2),
    "a number too large": (["stage", "checkpoint", "stage-1", str(2**70)], 2),
    "half a character": (["stage", "checkpoint", "stage-1", '"\\ud800"'], 2),
    "bytes that are no text": (["note", "\udcff"], 2),
    "an empty note": (["note", ""], 2),
    "an empty error": (["stage", "fail", "stage-1", "--error", ""], 2),
    "a path for a stage": (["stage", "prepare", "../stage-1"], 2),
    "an invalid attempt": (["stage", "compute", "stage-1", "--attempt", "x"], 2),
}


@pytest.mark.parametrize("name", BAD_VALUES)
def test_value_that_cannot_be_recorded_is_refused(place: Place, name: str) -> None:
    """wfctl refuses the value without an internal error, and the log stays unchanged."""
    line, code = BAD_VALUES[name]
    answer = place.json(*line)
    assert (answer.code, answer.error["code"] != "internal") == (code, True)
    assert place.version() == 2


def test_note_with_line_breaks_is_one_line_of_progress_log(place: Place) -> None:
    """progress.log shows every line break in a note as a space, and the event keeps it."""
    text = "ein\nzwei\r\ndrei\u2028vier äöü 🙂"
    place.done("note", text)
    assert place.notes() == [text]
    assert place.log().splitlines()[-1].endswith("] ein zwei drei vier äöü 🙂")
    assert place.log().count("\n") == 3


def test_write_restores_missing_files(place: Place) -> None:
    """The next write creates the missing files with their full content."""
    before = place.log()
    (place.path / "progress.log").unlink()
    (place.path / "workflow-state.json").unlink()
    place.done("note", "hello")
    assert place.log().startswith(before)
    assert place.json("replay", "--check").code == 0


def test_metadata_of_a_write_match_the_state_file(place: Place) -> None:
    """``_meta`` has the version of the log and the position of the last event."""
    envelope: dict[str, Any] = place.json("stage", "prepare", "stage-1").envelope
    state = json.loads((place.path / "workflow-state.json").read_text("utf-8"))
    assert state["workflow_id"] == PLAN["workflow_id"]
    assert state["stages"][0]["status"] == "preparing"
    assert envelope["_meta"]["version"] == place.version() == 3
    assert envelope["_meta"]["position"] == place.done("events")[-1]["position"]
