"""An acknowledged append survives a power loss at every point of a real run."""

import os
import sys
from contextlib import closing
from pathlib import Path

import pytest

from eventstore.errors import EventStoreError
from migrations.upgrade import upgrade_database
from tests.eventstore.powerloss import Loss, Operation, build_shim, losses, recorded, restore
from tests.eventstore.support import sqlite_store

STEP = 8


def life_of_a_log(tmp_path: Path, journal: str, synchronous: str = "") -> list[Operation]:
    """Return the file operations of a program that creates a log and appends to it."""
    root, tools = tmp_path / "root", tmp_path / "tools"
    root.mkdir()
    tools.mkdir()
    program = [sys.executable, "-m", "tests.eventstore.sessions", str(root), journal, synchronous]
    return recorded(program, root, build_shim(tools))


def after_restart(loss: Loss, folder: Path, journal: str) -> list[str]:
    """Restart from the files after a power loss, and return the faults of the log."""
    # The shared-memory file is never synced, so the test fills it with random bytes.
    shared = {"events.db-shm": os.urandom(32768)} if loss.point % 3 == 0 else {}
    kept = {n: c for n, c in loss.files.items() if not n.endswith("-shm")}
    restore(kept | shared, folder)
    acknowledged = int((loss.said.split() or [b"0"])[-1])
    try:
        if not acknowledged:
            upgrade_database(folder / "events.db")
        return _faults(folder / "events.db", journal, acknowledged, loss.point % 2 == 0)
    except EventStoreError as error:
        return [f"point {loss.point}: {error.code} {error.message}"]


def _faults(path: Path, journal: str, acknowledged: int, reader_first: bool) -> list[str]:
    if reader_first:
        with closing(sqlite_store(path, read_only=True)) as store:
            assert store.head("nobody") is None
    with closing(sqlite_store(path, journal)) as store:
        faults = [str(found) for found in store.verify()]
        versions = [event.version for event in store.read("w")]
    if versions != list(range(1, len(versions) + 1)) or len(versions) < acknowledged:
        faults.append(f"expected {acknowledged} events, found {versions}")
    return faults


def faults_after_losses(
    operations: list[Operation], tmp_path: Path, journal: str, step: int
) -> list[str]:
    """Return all faults after all simulated power losses."""
    folder = tmp_path / "after"
    found = [after_restart(loss, folder, journal) for loss in losses(operations, "screen", step, 7)]
    assert len(found) > 100, "the run was too short to mean anything"
    return [fault for faults in found for fault in faults]


@pytest.mark.slow
def test_power_loss_loses_no_acknowledged_event(tmp_path: Path) -> None:
    """A power loss at some points of the run, in four variants each, loses no event."""
    operations = life_of_a_log(tmp_path, "wal")
    assert faults_after_losses(operations, tmp_path, "wal", STEP) == []


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("journal", ["wal", "truncate"])
def test_power_loss_at_any_point_loses_no_acknowledged_event(tmp_path: Path, journal: str) -> None:
    """A power loss at any point of the run, in each variant, loses no acknowledged event."""
    operations = life_of_a_log(tmp_path, journal)
    assert faults_after_losses(operations, tmp_path, journal, 1) == []


@pytest.mark.slow
@pytest.mark.parametrize(("journal", "synchronous"), [("wal", "NORMAL"), ("truncate", "OFF")])
@pytest.mark.long
def test_weaker_sync_level_loses_events(tmp_path: Path, journal: str, synchronous: str) -> None:
    """With a weaker sync level, the simulation reports lost events, as it should."""
    operations = life_of_a_log(tmp_path, journal, synchronous)
    faults = faults_after_losses(operations, tmp_path, journal, STEP)
    assert any("expected" in fault for fault in faults)
