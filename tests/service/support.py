"""Helpers that simulate a crash after an event is recorded and before files are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from cli.frame.workspace import SCHEMA
from eventstore.event import Actor, NewEvent, build_clock
from eventstore.sqlite.store import SqliteStore, open_store
from eventstore.store import Claim, Expected
from lifecycle.payload.models import NoteLogged
from service.root.atomic_files import new_id, system_clock, utc_text
from tests.cli.support import PLAN, Place

STREAM = f"workflow-{PLAN['workflow_id']}"
FILES = ("workflow-state.json", "progress.log")
#: The time of the simulated crash, by which tests recognize the lines of its events.
CRASHED_AT = datetime(2026, 4, 1, 12, 0, 0, tzinfo=UTC)


@contextmanager
def store_of(place: Place, clock: Callable[[], datetime] = system_clock) -> Iterator[SqliteStore]:
    """Open the log of a workflow directly, without the service."""
    store = open_store(place.path / ".wfctl/events.db", schema=SCHEMA, clock=build_clock(clock))
    try:
        yield store
    finally:
        store.close()


def record_only(place: Place, *texts: str) -> list[str]:
    """Record notes as if wfctl crashed before writing files; return the missing log lines."""
    events = [
        NewEvent(
            event_id=new_id(),
            type=NoteLogged.type,
            schema_version=1,
            data=NoteLogged(text=text).model_dump(mode="json"),
            actor=Actor("user", "ada"),
            session=None,
            causation_id=None,
            correlation_id=None,
            occurred_at=utc_text(CRASHED_AT),
        )
        for text in texts
    ]
    with store_of(place, lambda: CRASHED_AT) as store:
        store.append(STREAM, events, expected=Expected.STREAM_EXISTS, claim=Claim(new_id(), ""))
    return [f"[2026-04-01T12:00:00+00:00] {text}\n" for text in texts]


def files_of(place: Place) -> dict[str, bytes]:
    """Return the content of the state file and of progress.log, by file name."""
    return {name: (place.path / name).read_bytes() for name in FILES}
