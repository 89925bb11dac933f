"""`db salvage` keeps the valid part of an altered log, and loses no data."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.adversary import raw
from tests.amendments.support import Place
from tests.cli.support import call

MARK = "the log was salvaged at 20"


def told(place: Place) -> str:
    """Return what `status` reports about the log."""
    return " ".join(one["text"] for one in place.done("status")["account"] if one["kind"] == "log")


@pytest.mark.parametrize(
    "alteration",
    [
        "UPDATE events SET body = replace(body, 'second', 'changed') WHERE version = 4",
        "UPDATE events SET body = x'ff00', hash = 'none' WHERE version = 4",
        "DELETE FROM events WHERE version = 4",
        "UPDATE events SET version = 'four' WHERE version = 4",
        "UPDATE events SET recorded_at = 'later' WHERE version = 4",
    ],
)
def test_salvage_keeps_the_versions_before_the_first_bad_one(
    trusted: Place, alteration: str
) -> None:
    """Commands refuse the altered log. After `db salvage`, they work and a copy is kept."""
    for text in ("first", "second", "third"):
        trusted.done("note", text)
    raw.tamper(trusted.path, alteration)
    answer = trusted.json("status")
    assert (answer.code, answer.error["code"]) == (7, "log_unsound")
    assert trusted.json("--as-is", "log").code == 0 or "four" in alteration or "x'ff" in alteration
    assert trusted.json("--as-is", "note", "x").code == 2
    found = trusted.done("db", "salvage")
    assert trusted.json("status").code == 0
    # A damaged row also loses its claim (the record of the command that wrote it), so fsck may
    # report it.
    assert {found["kind"] for found in trusted.json("fsck").data["findings"]} <= {"unclaimed"}
    wrong = trusted.json("replay", "--check").data["findings"]
    assert {found["kind"] for found in wrong} <= {"unclaimed"}
    kept = Path(found["kept"])
    assert {"events.db", "progress.log", "workflow-state.json"} <= {p.name for p in kept.iterdir()}
    trusted.done("note", "on we go")
    # Status and report show the salvage mark only if events were lost. A false column costs no
    # event, because the event's text is still valid.
    shown = told(trusted), trusted.call("status").out, trusted.done("report")["text"]
    assert [MARK in one for one in shown] == [bool(found["lost"])] * 3
    assert trusted.notes()[0] == "first"
    assert trusted.notes()[-1] == "on we go"


def test_valid_log_is_salvaged_completely(trusted: Place) -> None:
    """The salvage keeps every event of a valid log, and its dry run writes nothing."""
    trusted.done("note", "first")
    before = [body["hash"] for body in raw.bodies(trusted.path)]
    assert trusted.done("db", "salvage", "--dry-run")["lost"] == {}
    trusted.done("db", "salvage")
    assert told(trusted) == ""
    assert [body["hash"] for body in raw.bodies(trusted.path)] == before


def test_valid_part_is_salvaged_into_another_database(trusted: Place, tmp_path: Path) -> None:
    """`--into` leaves the altered log in place."""
    trusted.done("note", "first")
    raw.tamper(trusted.path, "UPDATE events SET hash = 'none' WHERE version = 2")
    target = f"sqlite:///{tmp_path}/other.db"
    assert trusted.done("db", "salvage", "--into", target)["lost"] == {
        "workflow-melt-2026-03-31": 2
    }
    assert trusted.json("status").code == 7
    answer = call("--root", str(trusted.path), "--database-url", target, "-o", "json", "status")
    assert answer.code == 0
    assert MARK in answer.out


def test_salvage_mark_names_the_dropped_events_of_a_machine(trusted: Place) -> None:
    """Only the shortened machine log shows the mark, and `fsck` does not report it."""
    trusted.done("machine", "init", "ship", "--type", "feature")
    for path in ("a.md", "b.md", "c.md"):
        trusted.done("machine", "update", "ship", f"artifacts.plan={path}")
    raw.tamper(
        trusted.path,
        "UPDATE events SET hash = 'none' WHERE stream = 'machine-ship' AND version = 3",
    )
    trusted.done("db", "salvage")
    answer = trusted.call("machine", "get", "ship")
    assert MARK in answer.out
    assert "2 events from version 3 on" in answer.out
    assert told(trusted) == ""
    assert trusted.json("fsck").code == 0


def test_salvage_keeps_the_evidence_of_a_rewritten_log(trusted: Place) -> None:
    """`fsck` and `status` still report after the salvage that the log was rewritten."""

    def edit(bodies: list[raw.Body]) -> list[raw.Body]:
        bodies[0]["actor"] = {**bodies[0]["actor"], "name": "somebody-else"}
        return bodies

    raw.rechained(trusted.path, edit)
    trusted.done("db", "salvage")
    assert "the log changed since wfctl last wrote it" in told(trusted)
    assert {one["kind"] for one in trusted.json("fsck").data["findings"]} == {"anchor"}
