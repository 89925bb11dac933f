"""The SQLite journal mode of the log: wfctl reports, stores and validates it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.support import PLAN, Place, call


@pytest.fixture
def vacant(tmp_path: Path) -> Path:
    """Return a folder that contains only a plan."""
    (tmp_path / "plan.json").write_text(json.dumps(PLAN), "utf-8")
    return tmp_path


def test_journal_mode_is_reported_with_its_reason(place: Place) -> None:
    """`db url` and `status` report the mode in their JSON output."""
    found = place.done("db", "url")["journal"]
    assert (found["mode"], found["synchronous"]) == ("wal", "FULL")
    assert found["reason"]
    assert place.done("status")["journal"] == found


def test_journal_mode_of_init_is_kept(vacant: Path) -> None:
    """Every later command uses the mode, and the status reports it."""
    begun = call(
        "--root",
        str(vacant),
        "--journal",
        "truncate",
        "init",
        str(vacant / "plan.json"),
        "--consent",
        "trust",
    )
    assert begun.code == 0, begun
    place = Place(vacant)
    place.done("note", "hello")
    assert place.done("db", "url")["journal"]["mode"] == "truncate"
    assert (vacant / ".wfctl/events.db-journal").exists()
    assert not (vacant / ".wfctl/events.db-wal").exists()
    assert "truncate journal: as requested" in place.call("status").out


def test_unsafe_journal_mode_is_refused(place: Place) -> None:
    """wfctl accepts only journal modes that keep acknowledged events after a power loss."""
    assert place.call("--journal", "memory", "note", "hello").code == 2
    config = place.path / ".wfctl/config.toml"
    config.write_text(config.read_text() + 'journal = "off"\n')
    answer = place.json("status")
    assert (answer.code, answer.error["code"]) == (2, "invalid_option")
