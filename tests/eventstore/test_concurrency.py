"""Many concurrent processes: none fails, no event is lost or duplicated, and no wait is long."""

import json
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from migrations.upgrade import upgrade_database
from tests.eventstore.support import Log, claim, notes, sqlite_store
from tests.rounds import first

# Maximum seconds that a writer may wait. The target is half a second, but a loaded machine gets ten
# times as much.
LONGEST_WAIT_SECONDS = 5.0


def crowd(log: Log, *numbers: int) -> Any:
    """Run writers, appends per writer, streams and readers, and return their reports."""
    arguments = [*log, *map(str, numbers)]
    command = [sys.executable, "-m", "tests.eventstore.crowd", *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("streams", first([40, 1]))
def test_forty_processes_append_without_failure(log: Log, streams: int) -> None:
    """Each of a thousand events is recorded once, in gapless streams with valid chains."""
    crowd(log, 40, 25, streams, 0)
    with closing(log.opened()) as store:
        events = list(store.read_all())
        assert list(store.verify()) == []
    assert [event.position for event in events] == list(range(1, 1001))
    assert len({event.event_id for event in events}) == 1000
    assert len({event.stream for event in events}) == streams


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(("journal", "tries"), first([("wal", 3), ("wal", 8), ("truncate", 8)]))
def test_new_database_is_opened_by_many_processes_together(
    database: Path, tmp_path: Path, journal: str, tries: int
) -> None:
    """One process sets the journal mode and the others wait. No process fails in several tries."""
    for number in range(tries):
        folder = tmp_path / f"try-{number}"
        folder.mkdir()
        path = Path(shutil.copy(database, folder))
        crowd(Log(str(path), journal), 12, 1, 1, 0)
        with closing(sqlite_store(path, journal)) as store:
            assert [event.version for event in store.read("stream-0")] == list(range(1, 13))


@pytest.mark.slow
@pytest.mark.few(2)
def test_follower_never_sees_a_gap(log: Log) -> None:
    """While eight processes write, a follower sees every position, in order."""
    reports = crowd(log, 8, 100, 3, 2)["readers"]
    assert [report["seen"] for report in reports] == [800, 800]
    assert [report["holes"] for report in reports] == [[], []]
    # The reader must have read several times. With a rollback journal, other processes may use
    # every pause between two commits, so no higher number is certain.
    assert max(report["looks"] for report in reports) > 1


@pytest.mark.slow
@pytest.mark.long
def test_writer_does_not_wait_long(log: Log) -> None:
    """Each of eight writers that append without pause gets its turn in time."""
    reports = crowd(log, 8, 150, 1, 0)["writers"]
    assert max(report["longest"] for report in reports) < LONGEST_WAIT_SECONDS


@settings(max_examples=40)
@given(turns=st.lists(st.tuples(st.integers(0, 1), st.sampled_from("vw")), max_size=12))
@pytest.mark.parametrize("journal", ["wal", "truncate"])
def test_stores_that_alternate_see_each_others_events(
    tmp_path_factory: pytest.TempPathFactory, journal: str, turns: list[tuple[int, str]]
) -> None:
    """Two stores can alternate in any order, and each continues after the other's event."""
    path = tmp_path_factory.mktemp("turns") / "events.db"
    upgrade_database(path)
    lengths = {"v": 0, "w": 0}
    with closing(sqlite_store(path, journal)) as one, closing(sqlite_store(path, journal)) as two:
        for number, stream in turns:
            store = (one, two)[number]
            store.append(stream, notes(1), expected=lengths[stream], claim=claim())
            lengths[stream] += 1
        assert [event.position for event in one.read_all()] == list(range(1, len(turns) + 1))
        assert list(two.verify()) == []
