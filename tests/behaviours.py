"""Check the event logs that a test creates against the protocol of valid event sequences.

The check does not use the rules by which wfctl decides commands.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cli.frame.workspace import SCHEMA
from eventstore.engine import open_log
from eventstore.errors import EventStoreError
from eventstore.store import EventStore
from extensions.protocol_check.behaviour import first_breach
from service.root.atomic_files import system_instant


def breaches(folder: Path) -> Iterator[str]:
    """Yield the first protocol violation of each intact workflow log below a folder."""
    for path in sorted(folder.rglob("events.db")):
        try:
            store = open_log(path, schema=SCHEMA, clock=system_instant, read_only=True)
        except EventStoreError:
            continue  # The file is not a log, or the test has damaged it.
        try:
            yield from (f"{path.relative_to(folder)}: {found}" for found in _of_store(store))
        finally:
            store.close()


def _of_store(store: EventStore) -> Iterator[str]:
    for stream in store.streams():
        if not stream.startswith("workflow-") or any(store.verify(stream)):
            continue
        found = first_breach((event.body, event.hash) for event in store.read(stream))
        if found is not None:
            yield f"{stream}: {found}"
