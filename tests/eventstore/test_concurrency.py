"""Many processes at once: nobody fails, nothing is lost or doubled, nobody waits long."""

import json
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.eventstore.support import sqlite_store

# The aim is half a second; a loaded machine gets ten times that before the mechanism is doubted.
LONGEST_WAIT_SECONDS = 5.0


def crowd(database: Path, journal: str, *numbers: int) -> Any:
    """Run writers, appends each, streams, readers; give back what they report."""
    arguments = [str(database), journal, *map(str, numbers)]
    command = [sys.executable, "-m", "tests.eventstore.crowd", *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("journal", ["wal", "truncate"])
@pytest.mark.parametrize("streams", [1, 40])
def test_forty_processes_append_without_failure(database: Path, journal: str, streams: int) -> None:
    """Each of a thousand events is there once, in gapless streams of a sound chain."""
    crowd(database, journal, 40, 25, streams, 0)
    with closing(sqlite_store(database, journal)) as store:
        events = list(store.read_all())
        assert list(store.verify()) == []
    assert [event.position for event in events] == list(range(1, 1001))
    assert len({event.event_id for event in events}) == 1000
    assert len({event.stream for event in events}) == streams


@pytest.mark.slow
@pytest.mark.parametrize("journal", ["wal", "truncate"])
def test_many_open_a_new_database_at_once(database: Path, tmp_path: Path, journal: str) -> None:
    """One changes it over to its journal, the others wait; in several tries nobody fails."""
    for number in range(8):
        folder = tmp_path / f"try-{number}"
        folder.mkdir()
        path = Path(shutil.copy(database, folder))
        crowd(path, journal, 12, 1, 1, 0)
        with closing(sqlite_store(path, journal)) as store:
            assert [event.version for event in store.read("stream-0")] == list(range(1, 13))


@pytest.mark.slow
@pytest.mark.parametrize("journal", ["wal", "truncate"])
def test_readers_that_follow_never_see_a_gap(database: Path, journal: str) -> None:
    """While eight processes write, every position comes after all smaller ones."""
    reports = crowd(database, journal, 8, 100, 3, 2)["readers"]
    assert [report["seen"] for report in reports] == [800, 800]
    assert [report["holes"] for report in reports] == [[], []]
    assert min(report["looks"] for report in reports) > 1


@pytest.mark.slow
@pytest.mark.parametrize("journal", ["wal", "truncate"])
def test_no_writer_waits_long(database: Path, journal: str) -> None:
    """Eight that never rest still let each other in."""
    reports = crowd(database, journal, 8, 150, 1, 0)["writers"]
    assert max(report["longest"] for report in reports) < LONGEST_WAIT_SECONDS
