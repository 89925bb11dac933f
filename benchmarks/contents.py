"""The same events for everybody, and the stores that are ours."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import uuid_utils

from eventstore.chain import Schema
from eventstore.event import Actor, NewEvent
from eventstore.sqlite.store import SqliteStore, open_store
from eventstore.store import Claim, Expected
from lifecycle.rules.decide import payload_of
from migrations.upgrade import upgrade_database
from service.root.atomic_files import system_instant

SCHEMA = Schema({"note.logged": 1})
STREAM = "workflow-bench"
_WHO = Actor("agent", "bench")


def data(number: int) -> dict[str, Any]:
    """What event so-and-so says, some two hundred bytes."""
    return {
        "text": f"line {number}: the walk of length 160 is at sweep {number * 7}, acceptance 0.41, "
        "and nothing is out of the ordinary",
        "stage": f"stage-{number % 9 + 1}",
        "kind": "note",
        "after": None,
        "raw": None,
    }


def fresh_id() -> str:
    """An identity in order of time."""
    return str(uuid_utils.uuid7())


def fresh_claim() -> Claim:
    """The claim of a new command."""
    return Claim(fresh_id(), "d" * 64)


def claim_of(new: NewEvent) -> Claim:
    """The claim of a new command that is one event, which bears its id."""
    return Claim(new.event_id, "d" * 64)


def event(said: dict[str, Any]) -> NewEvent:
    """A new event that says so, validated by the model of its type as the service does."""
    payload = payload_of("note.logged", said).as_json()
    now = "2026-07-01T09:00:00.000000Z"
    return NewEvent(fresh_id(), "note.logged", 1, payload, _WHO, None, None, None, now)


def made(path: Path, journal: str | None = None) -> SqliteStore:
    """A store of ours on a new database."""
    upgrade_database(path)
    return opened(path, journal)


def opened(path: Path, journal: str | None = None, read_only: bool = False) -> SqliteStore:
    """A store of ours on a database that is there."""
    return open_store(
        path, schema=SCHEMA, clock=system_instant, journal=journal, read_only=read_only
    )


def fill(store: SqliteStore, first: int, last: int, stream: str = STREAM) -> None:
    """Append events first to last in batches of a thousand."""
    for start in range(first, last + 1, 1000):
        batch = [event(data(number)) for number in range(start, min(start + 1000, last + 1))]
        store.append(stream, batch, expected=Expected.ANY, claim=fresh_claim())


def counted(events: Sequence[dict[str, Any]] | Any) -> dict[str, int]:
    """The fold that everybody does: events by stage."""
    counts: dict[str, int] = {}
    for found in events:
        stage = found["stage"]
        counts[stage] = counts.get(stage, 0) + 1
    return counts
