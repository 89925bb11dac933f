"""``events`` and ``log`` print what is asked for, as it is asked for."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from weakref import WeakSet

import pytest

from cli.frame.selection import ordered
from tests.adoption.support import document, imported, log_of, write_files
from tests.cli.support import HERE, Place

FILTERS = {
    "--status failed": ["stage.failed"],
    "--status ready": ["stage.readied", "stage.retried"],
    "--stage stage-1 --type stage.failed --type stage.retried": ["stage.failed", "stage.retried"],
    "--type session.*": ["session.started", "session.ended"],
    "--session 1 --type session.*": ["session.started", "session.ended"],
    "--session 1 --stage stage-1 --type attempt.* --type stage.failed": [
        "attempt.started",
        "stage.failed",
    ],
    "--grep NO-MEMORY --type stage.*": ["stage.failed"],
    "--since session:1 --until session:1": [],
    "--since session:1 --type stage.*": ["stage.retried"],
    "--actor user:ada": ["stage.retried"],
    "--reverse --limit 2": ["note.logged", "stage.retried"],
    "--since @{now}": [],
    "--amendment amend-1": [],
}


@pytest.mark.parametrize("line", FILTERS)
def test_events_are_chosen_by_what_they_are(place: Place, line: str) -> None:
    """Each way, and several together."""
    words = [word.replace("NO-MEMORY", "NO MEMORY") for word in line.split()]
    found = [t for t in place.types(*words) if t != "stage.blocked"]
    assert found == FILTERS[line]


@pytest.fixture
def taken_over(tmp_path: Path) -> Place:
    """Make a workflow imported with two sessions in its log, which a third one went on with."""
    log = log_of("by hand", "Session 1 started", "one", "Session 2 started", "two")
    state = document(session_config={"session_count": 2})
    root = imported(write_files(tmp_path / "w", state, log))
    root.done("note", "between")
    root.done("append", "session.started")
    root.done("note", "three")
    root.done("append", "session.ended", "--data", '{"reason": "waiting"}')
    root.done("note", "after")
    return root


def test_an_imported_line_is_of_the_session_that_a_line_above_it_began(taken_over: Place) -> None:
    """As an event of ours is of the one that was open, its beginning and its end with it."""
    texts = {
        number: [e["data"].get("text") for e in taken_over.done("events", "--session", number)]
        for number in ("1", "2", "3")
    }
    assert texts == {
        "1": ["Session 1 started", "one"],
        "2": ["Session 2 started", "two", None],
        "3": [None, "three", None],
    }
    told = [entry["message"] for entry in taken_over.done("log", "--session", "1")]
    assert told == ["Session 1 started", "one"]


def test_the_last_session_of_an_import_ends_with_it(taken_over: Place) -> None:
    """How nobody knows; what was done before the next one began is of none."""
    ended = {row["session"]: row["ended"] for row in taken_over.done("audit", "costs")}
    assert ended == {1: "unknown", 2: "unknown", 3: "waiting"}
    gone = taken_over.json("session", "show", "2")
    assert gone.code == 3
    assert "no session 2 that wfctl kept: there is 3" in gone.error["message"]
    seen = taken_over.done("events", "--at", "session:2")
    assert seen[-1]["type"] == "state.imported"


class Watched(dict[str, Any]):
    """A record that can be looked for."""

    __hash__ = object.__hash__  # type: ignore[assignment]


@pytest.mark.parametrize("reverse", [False, True])
def test_of_a_long_log_no_more_is_held_than_is_shown(reverse: bool) -> None:
    """The last three of many."""
    alive: WeakSet[Watched] = WeakSet()
    most = 0

    def records() -> Iterator[Watched]:
        nonlocal most
        for number in range(100):
            record = Watched(number=number)
            alive.add(record)
            most = max(most, len(alive))
            yield record

    assert sorted(record["number"] for record in ordered(records(), 3, reverse)) == [97, 98, 99]
    assert most <= 5


def test_fields_are_the_only_ones_and_in_their_order(place: Place) -> None:
    """In JSON as an object, in text as columns; one that is not there is null, or empty."""
    line = ["events", "--type", "stage.failed", "--fields", "data.error,version,data.nothing"]
    error = "exit 137: no memory"
    (found,) = place.done(*line)
    version = found["version"]
    assert list(found.items()) == [
        ("data.error", error), ("version", version), ("data.nothing", None)
    ]  # fmt: skip
    assert place.call(*line).out == f"{error}\t{version}\t\n"


def test_a_template_is_a_line_each(place: Place) -> None:
    """``{field}`` stands for a value, ``{{`` for a brace; with JSON it is a usage error."""
    line = [
        "events",
        "--status",
        "failed",
        "--template",
        "{{{type}}} by {actor.kind} {data.checks}",
    ]
    assert place.call(*line).out == "{stage.failed} by agent []\n"
    assert place.json(*line).code == 2
    assert place.call("log", "--status", "failed", "--template", "{stage}").out == "stage-1\n"


def test_what_excludes_itself_is_a_usage_error(place: Place) -> None:
    """A follower has no last event."""
    for words in (["--follow", "--reverse"], ["--follow", "--at", "3"]):
        assert place.json("events", *words).code == 2
        assert place.json("log", *words).code == 2


def test_the_log_takes_the_same_choices(place: Place) -> None:
    """And keeps what names a stage with what is of it."""
    assert [e["type"] for e in place.done("log", "--status", "failed")] == ["stage.failed"]
    newest = place.done("log", "--reverse", "-n", "1")
    assert [entry["message"] for entry in newest] == ["Now the long one."]
    assert place.done("log", "--session", "1", "--grep", "137")[0]["session"] == 1


def test_the_log_shows_relative_times_and_colours(place: Place) -> None:
    """A failure is red where colours are used, and nothing is where they are not."""
    line = ["log", "--relative", "--status", "failed"]
    assert "\x1b[31m" in place.call("--color", "always", *line).out
    plain = place.call(*line).out
    assert "\x1b" not in plain
    assert " ago" in plain or "just now" in plain


@pytest.mark.slow
@pytest.mark.parametrize("terminal", [True, False])
def test_a_pager_is_used_on_a_terminal_only(place: Place, terminal: bool) -> None:
    """The one that ``$PAGER`` names."""
    pager = "sed 's/^/paged: /'"
    controller, user = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", "--root", str(place.path), "log", "-n", "1"],
        env={**os.environ, "PYTHONPATH": str(HERE), "PAGER": pager},
        stdin=subprocess.DEVNULL,
        stdout=user if terminal else subprocess.PIPE,
        check=True,
        timeout=60,
    )
    os.close(user)
    out = os.read(controller, 10_000) if terminal else done.stdout
    os.close(controller)
    assert out.startswith(b"paged: ") == terminal
    assert b"Now the long one." in out


def test_every_read_looks_back_by_both_clocks(place: Place) -> None:
    """``--known-at`` goes where ``--at`` goes."""
    reads = ["status", "show stage-1", "log", "events", "replay", "amend list"]
    reads += ["audit amendments", "audit transitions", "audit drift", "audit bypasses", "why"]
    reads += ["audit refused", "audit costs", "session show", "blame stage-1"]
    recorded = place.done("events")[2]["recorded_at"]
    views = ["--at 3", "--known-at 3", f"--known-at {recorded}", "--at session:1 --known-at 3"]
    for line in reads:
        answers = [place.json(*line.split(), *view.split()) for view in views]
        assert [answer.code for answer in answers] == [0] * 4
        assert len({answer.out for answer in answers}) == 1, line


def test_a_follower_of_the_log_sees_what_comes_later(place: Place) -> None:
    """Told as the log tells it, until its reader goes away."""
    line = [sys.executable, "-m", "cli.main", "--root", str(place.path), "log", "--follow"]
    follower = subprocess.Popen(
        [*line, "--type", "note.logged", "--grep", "long one", "--template", "{message}"],
        env={**os.environ, "PYTHONPATH": str(HERE)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert follower.stdout is not None
    with follower:
        assert follower.stdout.readline() == "Now the long one.\n"
        place.done("note", "Another long one.")
        assert follower.stdout.readline() == "Another long one.\n"
        follower.terminate()
