"""Opens the log of an imported history for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cli.frame.workspace import SCHEMA
from eventstore.sqlite.store import open_store
from service.reading.log import WorkflowLog
from service.root.atomic_files import system_instant
from tests.adoption.support import copied, history, imported


@contextmanager
def imported_log(name: str, folder: Path, *, writable: bool = False) -> Iterator[WorkflowLog]:
    """Import a real history into a subfolder, and open its log."""
    place = imported(copied(history(name), folder / "root"))
    store = open_store(
        place.path / ".wfctl/events.db", schema=SCHEMA, clock=system_instant, read_only=not writable
    )
    try:
        yield WorkflowLog(store, next(store.streams()), place.path)
    finally:
        store.close()
