"""Options of ``events`` and ``log`` that select and format entries."""

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

from cli.frame.selection import select_newest
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
def test_filters_select_events(place: Place, line: str) -> None:
    """Each filter of `events` selects the right events, alone and combined with others."""
    words = [word.replace("NO-MEMORY", "NO MEMORY") for word in line.split()]
    found = [t for t in place.types(*words) if t != "stage.blocked"]
    assert found == FILTERS[line]


@pytest.fixture
def taken_over(tmp_path: Path) -> Place:
    """Return a workflow imported with two sessions in its log; a third follows the import."""
    log = log_of("by hand", "Session 1 started", "one", "Session 2 started", "two")
    state = document(session_config={"session_count": 2})
    root = imported(write_files(tmp_path / "w", state, log))
    root.done("note", "between")
    root.done("append", "session.started")
    root.done("note", "three")
    root.done("append", "session.ended", "--data", '{"reason": "waiting"}')
    root.done("note", "after")
    return root


def test_imported_log_line_belongs_to_the_preceding_session(taken_over: Place) -> None:
    """`--session N` selects imported lines from the start of session N to its end."""
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


def test_import_ends_its_last_session(taken_over: Place) -> None:
    """The import ends the last session for an unknown reason, before the next one starts."""
    ended = {row["session"]: row["ended"] for row in taken_over.done("audit", "costs")}
    assert ended == {1: "unknown", 2: "unknown", 3: "waiting"}
    gone = taken_over.json("session", "show", "2")
    assert gone.code == 3
    assert "the log has no session 2. Recorded sessions: 3" in gone.error["message"]
    seen = taken_over.done("events", "--at", "session:2")
    assert seen[-1]["type"] == "state.imported"


class Watched(dict[str, Any]):
    """A record that a weak reference can observe, so that the test counts live records."""

    __hash__ = object.__hash__  # type: ignore[assignment]


@pytest.mark.parametrize("reverse", [False, True])
def test_select_newest_keeps_few_records_in_memory(reverse: bool) -> None:
    """Selecting the last three of a hundred records keeps at most five records alive."""
    alive: WeakSet[Watched] = WeakSet()
    most = 0

    def records() -> Iterator[Watched]:
        nonlocal most
        for number in range(100):
            record = Watched(number=number)
            alive.add(record)
            most = max(most, len(alive))
            yield record

    assert sorted(record["number"] for record in select_newest(records(), 3, reverse)) == [
        97,
        98,
        99,
    ]
    assert most <= 5


def test_fields_option_prints_only_these_fields_in_order(place: Place) -> None:
    """JSON has an object and text has columns; a missing field is null or empty."""
    line = ["events", "--type", "stage.failed", "--fields", "data.error,version,data.nothing"]
    error = "exit 137: no memory"
    (found,) = place.done(*line)
    version = found["version"]
    assert list(found.items()) == [
        ("data.error", error), ("version", version), ("data.nothing", None)
    ]  # fmt: skip
    assert place.call(*line).out == f"{error}\t{version}\t\n"


def test_template_prints_one_line_per_event(place: Place) -> None:
    """``{field}`` is replaced by its value, ``{{`` by a brace; JSON with a template is refused."""
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


def test_follow_with_reverse_or_at_is_refused(place: Place) -> None:
    """`--reverse` and `--at` need a last event, but `--follow` continues without end."""
    for words in (["--follow", "--reverse"], ["--follow", "--at", "3"]):
        assert place.json("events", *words).code == 2
        assert place.json("log", *words).code == 2


def test_log_accepts_the_same_filters(place: Place) -> None:
    """`log` accepts the filters of `events`. Entries have stage, session and message."""
    assert [e["type"] for e in place.done("log", "--status", "failed")] == ["stage.failed"]
    newest = place.done("log", "--reverse", "-n", "1")
    assert [entry["message"] for entry in newest] == ["Now the long one."]
    assert place.done("log", "--session", "1", "--grep", "137")[0]["session"] == 1


def test_log_prints_relative_times_and_colors(place: Place) -> None:
    """A failure is red if colors are on, and the output has no escape codes otherwise."""
    line = ["log", "--relative", "--status", "failed"]
    assert "\x1b[31m" in place.call("--color", "always", *line).out
    plain = place.call(*line).out
    assert "\x1b" not in plain
    assert " ago" in plain or "just now" in plain


@pytest.mark.slow
@pytest.mark.parametrize("terminal", [True, False])
def test_pager_is_used_only_on_a_terminal(place: Place, terminal: bool) -> None:
    """On a terminal, `log` uses the program that ``$PAGER`` names."""
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


def test_read_commands_accept_at_and_known_at(place: Place) -> None:
    """Every command with ``--at`` also accepts ``--known-at``."""
    reads = ["status", "show stage-1", "log", "events", "replay", "amend list"]
    reads += ["audit amendments", "audit transitions", "audit drift", "audit bypasses", "why"]
    reads += ["audit refused", "audit costs", "session show", "blame stage-1"]
    recorded = place.done("events")[2]["recorded_at"]
    views = ["--at 3", "--known-at 3", f"--known-at {recorded}", "--at session:1 --known-at 3"]
    for line in reads:
        answers = [place.json(*line.split(), *view.split()) for view in views]
        assert [answer.code for answer in answers] == [0] * 4
        assert len({answer.out for answer in answers}) == 1, line


def test_following_the_log_prints_new_entries(place: Place) -> None:
    """The follower formats new entries like old ones, until it is terminated."""
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
