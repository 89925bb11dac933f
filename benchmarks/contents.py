"""The events that all measured event stores record, and helpers to open wfctl's store."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import uuid_utils

from eventstore.event import Actor, NewEvent
from eventstore.schema import Schema
from eventstore.sqlite.store import SqliteStore, open_store
from eventstore.store import Claim, Expected
from lifecycle.payload.build_payload import payload_of
from migrations.upgrade import upgrade_database
from service.root.atomic_files import system_instant

SCHEMA = Schema({"note.logged": 1})
STREAM = "workflow-bench"
_WHO = Actor("agent", "bench")


def data(number: int) -> dict[str, Any]:
    """Return the data of the event with this number, about 200 bytes."""
    return {
        "text": f"line {number}: the walk of length 160 is at sweep {number * 7}, acceptance 0.41, "
        "and nothing is out of the ordinary",
        "stage": f"stage-{number % 9 + 1}",
        "kind": "note",
        "after": None,
        "raw": None,
    }


def fresh_id() -> str:
    """Return a new UUID; ids sort by the time of their creation."""
    return str(uuid_utils.uuid7())


def fresh_claim() -> Claim:
    """Return a claim (id and digest of a command) for a new command."""
    return Claim(fresh_id(), "d" * 64)


def claim_of(new: NewEvent) -> Claim:
    """Return the claim of a command that records only this event and has the same id."""
    return Claim(new.event_id, "d" * 64)


def event(said: dict[str, Any]) -> NewEvent:
    """Return a new event with this data, validated by the model of its event type."""
    payload = payload_of("note.logged", said).as_json()
    now = "2026-07-01T09:00:00.000000Z"
    return NewEvent(fresh_id(), "note.logged", 1, payload, _WHO, None, None, None, now)


def made(path: Path, journal: str | None = None) -> SqliteStore:
    """Create a database, and return wfctl's event store on it."""
    upgrade_database(path)
    return opened(path, journal)


def opened(path: Path, journal: str | None = None, read_only: bool = False) -> SqliteStore:
    """Return wfctl's event store on an existing database."""
    return open_store(
        path, schema=SCHEMA, clock=system_instant, journal=journal, read_only=read_only
    )


def fill(store: SqliteStore, first: int, last: int, stream: str = STREAM) -> None:
    """Append the events with the numbers `first` to `last`, in batches of a thousand."""
    for start in range(first, last + 1, 1000):
        batch = [event(data(number)) for number in range(start, min(start + 1000, last + 1))]
        store.append(stream, batch, expected=Expected.ANY, claim=fresh_claim())


def counted(events: Sequence[dict[str, Any]] | Any) -> dict[str, int]:
    """Return the number of events of each stage; every measured store computes this fold."""
    counts: dict[str, int] = {}
    for found in events:
        stage = found["stage"]
        counts[stage] = counts.get(stage, 0) + 1
    return counts
