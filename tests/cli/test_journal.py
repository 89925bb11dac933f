"""Which journal the log has: said, kept, and chosen by a person where it must be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.support import PLAN, Place, call


@pytest.fixture
def vacant(tmp_path: Path) -> Path:
    """Return a folder with nothing but a plan in it."""
    (tmp_path / "plan.json").write_text(json.dumps(PLAN), "utf-8")
    return tmp_path


def test_the_journal_is_said_with_its_reason(place: Place) -> None:
    """By the address of the log and by the status, as data."""
    found = place.done("db", "url")["journal"]
    assert (found["mode"], found["synchronous"]) == ("wal", "FULL")
    assert found["reason"]
    assert place.done("status")["journal"] == found


def test_a_journal_that_was_asked_for_is_kept(vacant: Path) -> None:
    """What init was told holds for every later command, and the status says so."""
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
    assert "truncate journal: as it was asked for" in place.call("status").out


def test_another_journal_is_refused(place: Place) -> None:
    """Only those that keep an acknowledged event through a loss of power."""
    assert place.call("--journal", "memory", "note", "hello").code == 2
    config = place.path / ".wfctl/config.toml"
    config.write_text(config.read_text() + 'journal = "off"\n')
    answer = place.json("status")
    assert (answer.code, answer.error["code"]) == (2, "invalid_option")
