"""wfctl stores evidence against an altered log until a person accepts the log."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.adversary import raw
from tests.amendments.support import PLAN, Place, make
from tests.cli.support import write_plan
from tests.cli.terminal import answered

WORD = "the log changed since wfctl last wrote it"


def rewritten(place: Place, stream: str = "workflow-") -> None:
    """Rewrite the history from its first event with a valid chain, as SQL access permits."""

    def edit(bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
        (first, *_) = (body for body in bodies if body["stream"].startswith(stream))
        first["actor"] = {**first["actor"], "name": first["actor"]["name"] + "x"}
        return bodies

    raw.rechained(place.path, edit)


def account(place: Place) -> str:
    """Return what `status` reports about the log."""
    return " ".join(one["text"] for one in place.done("status")["account"] if one["kind"] == "log")


def kinds(place: Place) -> set[str]:
    """Return the kinds of the findings of `fsck`."""
    return {one["kind"] for one in place.json("fsck").data["findings"]}


@pytest.mark.forged
def test_rewritten_log_is_reported_after_any_number_of_writes(trusted: Place) -> None:
    """`status` and `fsck` still report the rewritten log, once, after later writes."""
    trusted.done("note", "first")
    rewritten(trusted)
    assert "anchor" in kinds(trusted)
    assert WORD in account(trusted)
    for text in ("second", "third"):
        trusted.done("note", text)
    trusted.done("replay", "--rebuild")
    assert trusted.json("fsck").code == 7
    assert "anchor" in kinds(trusted)
    assert account(trusted).count(WORD) == 1
    assert "seen 20" in account(trusted)
    assert WORD in trusted.call("status").out
    assert WORD in trusted.done("report")["text"]
    assert any(WORD in one["why"] for one in trusted.bypasses())


@pytest.mark.forged
def test_truncated_log_is_reported_after_a_write(trusted: Place) -> None:
    """wfctl still reports deleted events after new events have replaced their versions."""
    for text in ("first", "second"):
        trusted.done("note", text)
    end = trusted.version()
    raw.tamper(trusted.path, f"DELETE FROM events WHERE version = {end}")
    assert trusted.json("note", "other").error["code"] == "log_behind"
    trusted.done("replay", "--rebuild")
    for text in ("other", "another"):
        trusted.done("note", text)
    assert "anchor" in kinds(trusted)
    assert WORD in account(trusted)


@pytest.mark.forged
def test_person_at_a_terminal_accepts_a_rewritten_log(trusted: Place) -> None:
    """Only a person can accept the log, and a second rewrite is reported again."""
    rewritten(trusted)
    trusted.done("note", "on")
    assert trusted.json("pin", "--replace", "--actor", "agent:bot").code == 6
    assert WORD in account(trusted)
    code, shown = answered("y\n", "--root", str(trusted.path), "pin", "--replace")
    assert (code, WORD in shown) == (0, True), shown
    assert (account(trusted), kinds(trusted)) == ("", set())
    rewritten(trusted)
    assert "anchor" in kinds(trusted)


@pytest.mark.forged
def test_rewritten_machine_log_is_reported(tmp_path: Path) -> None:
    """wfctl detects the rewrite by the head of the log, which a machine's files store."""
    place = make(tmp_path / "root", "--consent", "trust")
    place.done("machine", "init", "ship", "--type", "feature")
    rewritten(place, "machine-")
    for path in ("a.md", "b.md"):
        place.done("machine", "update", "ship", f"artifacts.plan={path}")
    assert "anchor" in kinds(place)
    assert WORD in place.call("machine", "get", "ship").out
    assert account(place) == ""


@pytest.mark.forged
@pytest.mark.parametrize(
    "content", ["{}", '{"marks":[{"kind":"anchor","stream":null,"version":[1],"at":5}]}']
)
def test_damaged_marks_file_is_reported(trusted: Place, content: str) -> None:
    """`fsck` and `status` report an overwritten file of evidence (marks.json)."""
    (trusted.path / ".wfctl/marks.json").write_text(content)
    assert "unreadable_marks" in kinds(trusted)
    assert "marks" in account(trusted)


UNCLAIMED = "added to the log by a program other than wfctl"


@pytest.mark.forged
def test_event_appended_without_wfctl_is_reported(trusted: Place) -> None:
    """`status` reports an unclaimed event once, before and after later writes."""
    for number in (1, 2):
        body = raw.following(trusted.path, "note.logged", {"text": "forged"})
        raw.insert(trusted.path, {**body, "command_id": f"of-nobody-{number}"})
    version = trusted.version()
    for _ in range(3):
        assert account(trusted).count(UNCLAIMED) == 1
        assert UNCLAIMED in trusted.call("status").out
        assert UNCLAIMED in trusted.done("report")["text"]
        trusted.done("note", "on")
    items = [one for one in trusted.done("status")["account"] if one["kind"] == "log"]
    assert [one["subject"] for one in items] == [f"version {version - 1}"]
    assert {one["kind"] for one in trusted.json("fsck").data["findings"]} == {"unclaimed"}
    assert {one["version"] for one in trusted.bypasses()} == {version - 1, version}


@pytest.mark.forged
def test_claim_that_does_not_name_the_event_is_ignored(trusted: Place) -> None:
    """A row in the commands table claims an event only if it names the event's version."""
    body = raw.following(trusted.path, "note.logged", {"text": "forged"})
    raw.insert(trusted.path, {**body, "command_id": "made-up"})
    row = "INSERT INTO commands VALUES ('made-up', '{}', 'd', 'x', 99)"
    raw.tamper(trusted.path, row.format(body["stream"]))
    trusted.done("note", "on")
    assert UNCLAIMED in account(trusted)


@pytest.mark.forged
def test_machine_event_appended_without_wfctl_is_reported(trusted: Place) -> None:
    """The machine shows the warning, and the workflow in the same root does not."""
    trusted.done("machine", "init", "ship", "--type", "feature")
    last = [body for body in raw.bodies(trusted.path) if body["stream"] == "machine-ship"][-1]
    own = {"stream": "machine-ship", "version": last["version"] + 1, "prev_hash": last["hash"]}
    data = {"name": "lock.broken", "data": {}}
    body = raw.following(trusted.path, "machine.recorded", data, **own)
    raw.insert(trusted.path, {**body, "command_id": "of-nobody"})
    for path in ("a.md", "b.md"):
        assert UNCLAIMED in trusted.call("machine", "get", "ship").out
        trusted.done("machine", "update", "ship", f"artifacts.plan={path}")
    assert account(trusted) == ""


def begun_anew(place: Place, *words: str) -> None:
    """Delete all wfctl files of the root, and create the workflow again."""
    shutil.rmtree(place.path / ".wfctl")
    for name in ("workflow-state.json", "progress.log", "ship.state.json"):
        (place.path / name).unlink(missing_ok=True)
    source = write_plan(place.path.parent, {**PLAN, "workflow_id": "another"}, "other.json")
    place.done("init", str(source), "--consent", "trust")


def test_restarted_log_is_reported_until_a_person_accepts_it(trusted: Place) -> None:
    """The warning states the time, the previous log and its last state, under every policy."""
    trusted.done("stage", "prepare", "stage-1")
    before, seen = trusted.version(), account(trusted)
    begun_anew(trusted)
    for _ in range(2):
        told = account(trusted)
        assert "this log replaced another one on 20" in told
        assert f"workflow-{PLAN['workflow_id']}, created 20" in told
        assert f"at version {before} (hash " in told
        assert "with the state: stage-1 preparing" in told
        trusted.done("note", "on we go")
    assert seen == ""
    assert "replaced another one" in trusted.call("status").out
    assert "replaced another one" in trusted.done("report")["text"]
    assert [one["what"] for one in trusted.bypasses()] == [f"workflow-{PLAN['workflow_id']}"]
    assert trusted.json("pin", "--replace", "--actor", "agent:bot").code == 6
    code, shown = answered("y\n", "--root", str(trusted.path), "pin", "--replace")
    assert (code, "replaced another one" in shown) == (0, True), shown
    assert (account(trusted), trusted.bypasses()) == ("", [])


def test_restarted_machine_log_is_reported(trusted: Place) -> None:
    """The machine shows a warning of its own, with the last phase of the previous log."""
    trusted.done("machine", "init", "ship", "--type", "feature")
    trusted.done("machine", "update", "ship", "artifacts.plan=a.md")
    begun_anew(trusted)
    trusted.done("machine", "init", "ship", "--type", "feature")
    shown = trusted.call("machine", "get", "ship").out
    assert "machine-ship, created 20" in " ".join(shown.split())
    assert {one["what"] for one in trusted.bypasses()} == {
        "machine-ship",
        f"workflow-{PLAN['workflow_id']}",
    }


def test_restored_root_is_not_reported_as_restarted(trusted: Place) -> None:
    """wfctl recognises a restored log by its first event, and prints no warning."""
    trusted.done("db", "backup", str(trusted.path.parent / "copy.db"))
    shutil.rmtree(trusted.path / ".wfctl")
    trusted.done("db", "restore", str(trusted.path.parent / "copy.db"))
    assert "replaced another one" not in account(trusted)
