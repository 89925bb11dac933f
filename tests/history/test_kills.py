"""If wfctl is killed while it writes history tables, rows and checkpoint are consistent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from eventstore.sqlite.connection import open_connection
from tests.cli.support import HERE, Place
from tests.history.story import written

NOTES = 3000
REBUILD = ("db", "project", "--rebuild")
_COUNT = "SELECT count(*) AS events, max(version) AS head FROM v_events"


@pytest.fixture
def long(tmp_path: Path) -> Place:
    """Return the fixed history with some thousand additional notes."""
    place = Place(written(tmp_path / "root"))
    lines = tmp_path / "lines"
    note = {"type": "note.logged", "data": {"text": "x"}}
    lines.write_text(f"{json.dumps(note)}\n" * NOTES)
    place.done("append", "--from", str(lines))
    return place


def checkpoint(place: Place) -> int:
    """Return the version up to which the tables are written, or 0 if they are empty."""
    with closing(open_connection(place.path / ".wfctl/events.db", "mode=ro", 5)) as database:
        row = database.execute("SELECT version FROM folds WHERE reducer = 'history'").fetchone()
    return row[0] if row is not None else 0


@pytest.mark.forged
@pytest.mark.slow
@pytest.mark.long
def test_killed_rebuild_leaves_tables_that_match_the_checkpoint(long: Place) -> None:
    """After a kill at any point, queries are right, and the next projection continues."""
    told = long.done("audit", "transitions"), long.done("audit", "sql", _COUNT)
    kept = set()
    for least in (1, 900, 1900, 2900):
        program = subprocess.Popen(
            [*(sys.executable, "-m", "cli.main", "--root", str(long.path)), *REBUILD],
            env={**os.environ, "PYTHONPATH": str(HERE)},
            stdout=subprocess.DEVNULL,
        )
        with program:
            while program.poll() is None and not least <= checkpoint(long) < NOTES:
                time.sleep(0.003)
            program.send_signal(signal.SIGKILL)
        kept.add(checkpoint(long))
        assert (long.done("audit", "transitions"), long.done("audit", "sql", _COUNT)) == told
    assert any(0 < version < NOTES for version in kept), kept
    long.done("db", "project")
    assert (long.done("audit", "transitions"), long.done("audit", "sql", _COUNT)) == told
    assert long.done("db", "project")["events"] == 0
