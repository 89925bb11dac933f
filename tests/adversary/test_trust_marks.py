"""What speaks against a log is kept beside it, and told until a person says that it is well."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.adversary import raw
from tests.amendments.support import PLAN, Place, make
from tests.cli.support import write_plan
from tests.cli.terminal import answered

WORD = "not the one that wfctl left here"


def rewritten(place: Place, stream: str = "workflow-") -> None:
    """Write the history anew from its first event, with a right chain, as somebody would by SQL."""

    def edit(bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
        (first, *_) = (body for body in bodies if body["stream"].startswith(stream))
        first["actor"] = {**first["actor"], "name": first["actor"]["name"] + "x"}
        return bodies

    raw.rechained(place.path, edit)


def account(place: Place) -> str:
    """Return what status says of the log itself."""
    return " ".join(one["text"] for one in place.done("status")["account"] if one["kind"] == "log")


def kinds(place: Place) -> set[str]:
    """Return the kinds of what the check finds."""
    return {one["kind"] for one in place.json("fsck").data["findings"]}


@pytest.mark.forged
def test_a_log_written_anew_is_told_after_any_number_of_writes(trusted: Place) -> None:
    """The anchor moves on; what it contradicted stays, once, with when it was seen."""
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
def test_a_log_that_was_cut_is_told_after_a_write(trusted: Place) -> None:
    """A tail that is gone is found once the log has grown past it again."""
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
def test_a_person_at_a_terminal_says_that_it_is_well(trusted: Place) -> None:
    """No agent does; then nothing speaks against it, and another contradiction is told again."""
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
def test_a_machine_written_anew_is_told_likewise(tmp_path: Path) -> None:
    """Its files remember its head as those of the workflow do."""
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
def test_marks_that_somebody_spoilt_are_told(trusted: Place, content: str) -> None:
    """Nobody wipes them by writing something else into their file."""
    (trusted.path / ".wfctl/marks.json").write_text(content)
    assert "unreadable_marks" in kinds(trusted)
    assert "marks" in account(trusted)


UNCLAIMED = "put into the log by something else than wfctl"


@pytest.mark.forged
def test_an_event_that_nobody_of_ours_appended_is_told(trusted: Place) -> None:
    """Before the next write, and after any number of them; once."""
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
def test_a_claim_of_other_versions_or_of_nonsense_is_none(trusted: Place) -> None:
    """A row among the commands helps only where it names the event."""
    body = raw.following(trusted.path, "note.logged", {"text": "forged"})
    raw.insert(trusted.path, {**body, "command_id": "made-up"})
    row = "INSERT INTO commands VALUES ('made-up', '{}', 'd', 'x', 99)"
    raw.tamper(trusted.path, row.format(body["stream"]))
    trusted.done("note", "on")
    assert UNCLAIMED in account(trusted)


@pytest.mark.forged
def test_an_event_of_a_machine_that_nobody_appended_is_told(trusted: Place) -> None:
    """As in the workflow, beside it."""
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
    """Remove all that wfctl has in the root, and begin there again, as a hasty agent does."""
    shutil.rmtree(place.path / ".wfctl")
    for name in ("workflow-state.json", "progress.log", "ship.state.json"):
        (place.path / name).unlink(missing_ok=True)
    source = write_plan(place.path.parent, {**PLAN, "workflow_id": "another"}, "other.json")
    place.done("init", str(source), "--consent", "trust")


def test_a_log_begun_anew_is_told_until_a_person_says_that_it_is_well(trusted: Place) -> None:
    """When, what was there before, and how it stood; whatever the policy is."""
    trusted.done("stage", "prepare", "stage-1")
    before, seen = trusted.version(), account(trusted)
    begun_anew(trusted)
    for _ in range(2):
        told = account(trusted)
        assert "the log was begun anew at 20" in told
        assert f"before it this login wrote workflow-{PLAN['workflow_id']} here" in told
        assert f"version {before}, hash " in told
        assert "it stood so: stage-1 preparing" in told
        trusted.done("note", "on we go")
    assert seen == ""
    assert "begun anew" in trusted.call("status").out
    assert "begun anew" in trusted.done("report")["text"]
    assert [one["what"] for one in trusted.bypasses()] == [f"workflow-{PLAN['workflow_id']}"]
    assert trusted.json("pin", "--replace", "--actor", "agent:bot").code == 6
    code, shown = answered("y\n", "--root", str(trusted.path), "pin", "--replace")
    assert (code, "begun anew" in shown) == (0, True), shown
    assert (account(trusted), trusted.bypasses()) == ("", [])


def test_a_machine_begun_anew_is_told_likewise(trusted: Place) -> None:
    """By itself: the phase that it was in."""
    trusted.done("machine", "init", "ship", "--type", "feature")
    trusted.done("machine", "update", "ship", "artifacts.plan=a.md")
    begun_anew(trusted)
    trusted.done("machine", "init", "ship", "--type", "feature")
    shown = trusted.call("machine", "get", "ship").out
    assert "before it this login wrote machine-ship here" in " ".join(shown.split())
    assert {one["what"] for one in trusted.bypasses()} == {
        "machine-ship",
        f"workflow-{PLAN['workflow_id']}",
    }


def test_a_root_that_is_moved_or_restored_is_not_begun_anew(trusted: Place) -> None:
    """Its first event is the same."""
    trusted.done("db", "backup", str(trusted.path.parent / "copy.db"))
    shutil.rmtree(trusted.path / ".wfctl")
    trusted.done("db", "restore", str(trusted.path.parent / "copy.db"))
    assert "begun anew" not in account(trusted)
