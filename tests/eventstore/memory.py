"""An in-memory event store for tests, as strict as the persistent engines."""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from eventstore.chain import START, Link, Sealed, build_chained_rows, canonical_json
from eventstore.errors import EventIdReused, StoreClosed, TransferConflict
from eventstore.event import Clock, NewEvent, RecordedEvent
from eventstore.import_rows import build_imported_rows
from eventstore.schema import Schema
from eventstore.sql import Statements
from eventstore.store import (
    AppendResult,
    Claim,
    EventStore,
    ExecutedCommand,
    Expected,
    Head,
    ImportBatch,
    RawEvent,
    Refusal,
    StoredFold,
    require_expected_version,
    require_same_command,
    require_valid_stream_name,
)
from eventstore.verification import CommandSpan, Finding, StoredRow


class MemoryStore(EventStore):
    """An EventStore whose events exist only in the memory of the process."""

    def __init__(self, *, schema: Schema, clock: Clock) -> None:
        super().__init__("memory", Statements(), schema, clock, as_is=False)
        self._log: list[StoredRow] = []
        self._streams: defaultdict[str, list[StoredRow]] = defaultdict(list)
        self._event_ids: set[str] = set()
        self._commands: dict[str, ExecutedCommand] = {}
        self._folds: dict[tuple[str, str], StoredFold] = {}
        self._refusals: list[Refusal] = []

    def _require_open(self) -> None:
        if self._closed:
            raise StoreClosed("closed")

    def append(
        self, stream: str, events: Sequence[NewEvent], *, expected: int | Expected, claim: Claim
    ) -> AppendResult:
        """Implement `EventStore.append`."""
        self._require_open()
        require_valid_stream_name(stream)
        for event in events:
            self._schema.require_readable_event(event)
        known = self._commands.get(claim.command_id)
        if known is not None:
            require_same_command(claim, known, stream)
            return self._answer(known)
        return AppendResult(self._record(stream, events, expected, claim), False)

    def _record(
        self, stream: str, events: Sequence[NewEvent], expected: int | Expected, claim: Claim
    ) -> tuple[RecordedEvent, ...]:
        head = self.head(stream)
        after = Link(head.version, head.hash) if head else START
        require_expected_version(stream, expected, after.version)
        marked = (stream, claim.command_id, *self._clock())
        sealed, end = build_chained_rows(events, after, marked)
        self._require_new_ids(stream, events)
        rows = [self._store(link) for link in sealed]
        self._commands[claim.command_id] = ExecutedCommand(
            claim.command_id, stream, claim.digest, after.version + 1, end.version
        )
        return tuple(self._decode(row) for row in rows)

    def _require_new_ids(self, stream: str, events: Sequence[NewEvent]) -> None:
        ids = [event.event_id for event in events]
        if len(set(ids)) < len(ids) or self._event_ids.intersection(ids):
            raise EventIdReused(stream, ids)

    def _store(self, link: Sealed) -> StoredRow:
        row = StoredRow(len(self._log) + 1, *link)
        self._log.append(row)
        self._streams[row.stream].append(row)
        self._event_ids.add(row.event_id)
        return row

    def _decode(self, row: StoredRow) -> RecordedEvent:
        return self._schema.decode(row.position, row.hash, row.text)

    def find_executed_command(self, claim: Claim) -> AppendResult | None:
        """Implement `EventStore.find_executed_command`."""
        self._require_open()
        known = self._commands.get(claim.command_id)
        if known is None:
            return None
        require_same_command(claim, known)
        return self._answer(known)

    def claim(self, command_id: str) -> Claim | None:
        """Implement `EventStore.claim`."""
        self._require_open()
        known = self._commands.get(command_id)
        return None if known is None else Claim(command_id, known.digest)

    def read(
        self, stream: str, *, after: int | Link = 0, upto: int | None = None
    ) -> Iterator[RecordedEvent]:
        """Implement `EventStore.read`."""
        self._require_open()
        link = after if isinstance(after, Link) else self._link(stream, after)
        return self._events.events(islice(self.rows(stream), link.version, upto), stream, link)

    def _link(self, stream: str, version: int) -> Link:
        if version <= 0:
            return START
        return self._events.link(islice(self.rows(stream), version - 1, version), stream, version)

    def read_all(self, *, after: int = 0) -> Iterator[RecordedEvent]:
        """Implement `EventStore.read_all`."""
        self._require_open()
        return self._events.all_events(islice(iter(self._log), after, None), self._link)

    def wait(self, after: int, timeout: float) -> int:
        """Implement `EventStore.wait`. No other process can append meanwhile."""
        self._require_open()
        if len(self._log) <= after:
            time.sleep(timeout)
        return len(self._log)

    def raw(self, stream: str, *, after: int = 0, upto: int | None = None) -> Iterator[RawEvent]:
        """Implement `EventStore.raw`."""
        self._require_open()
        rows = islice(self.rows(stream), after, upto)
        return (RawEvent(row.position, row.text, row.hash) for row in rows)

    def all_raw(self) -> Iterator[RawEvent]:
        """Implement `EventStore.all_raw`."""
        self._require_open()
        return (RawEvent(row.position, row.text, row.hash) for row in self._log)

    def commands(self) -> Iterator[ExecutedCommand]:
        """Implement `EventStore.commands`."""
        self._require_open()
        return (self._commands[id_] for id_ in sorted(self._commands))

    def import_batch(self, cargo: ImportBatch) -> None:
        """Implement `EventStore.import_batch`."""
        self._require_open()
        rows = build_imported_rows(cargo.events, len(self._log))
        here = [row.event_id for row in rows if row.event_id in self._event_ids]
        here += [c.command_id for c in cargo.commands if c.command_id in self._commands]
        if here:
            raise TransferConflict(f"cargo of {len(rows)} events", f"{here[0]} is here")
        for row in rows:
            self._log.append(row)
            self._streams[row.stream].append(row)
            self._event_ids.add(row.event_id)
        self._commands |= {command.command_id: command for command in cargo.commands}
        self._refusals += cargo.refusals
        self._folds |= {(fold.stream, fold.reducer): fold for fold in cargo.folds}

    def rows(self, stream: str) -> Iterator[StoredRow]:
        """Return every column of a stream's rows, in order of version."""
        return iter(self._streams.get(stream, []))

    def event_count_and_last_position(self) -> tuple[int, int]:
        """Return the number of events and the last position."""
        return len(self._log), self._log[-1].position if self._log else 0

    def spans(self, command_ids: Sequence[str]) -> dict[str, CommandSpan]:
        """Return the events that each of these commands recorded."""
        known = ((id_, self._commands[id_]) for id_ in command_ids if id_ in self._commands)
        return {id_: CommandSpan(c.stream, c.first_version, c.last_version) for id_, c in known}

    def head(self, stream: str) -> Head | None:
        """Implement `EventStore.head`."""
        self._require_open()
        rows = self._streams.get(stream)
        return Head(rows[-1].version, rows[-1].position, rows[-1].hash) if rows else None

    def streams(self) -> Iterator[str]:
        """Implement `EventStore.streams`."""
        self._require_open()
        return iter(sorted(self._streams))

    def _fetch(self, statement: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
        raise AssertionError(
            f"a log in memory is asked in Python, not by {statement} of {parameters}"
        )

    def _write(self, *statements: tuple[str, tuple[Any, ...]]) -> None:
        raise AssertionError(f"a log in memory is written in Python, not by {statements}")

    def _foreign_rules(self) -> Iterable[str]:
        return ()

    def find_foreign_rows(self) -> Iterator[Finding]:
        """Implement `EventStore.find_foreign_rows`. No program can bypass this store."""
        return iter(())

    def save_fold(self, fold: StoredFold) -> None:
        """Implement `EventStore.save_fold`."""
        self._require_open()
        self._folds[fold.stream, fold.reducer] = fold

    def load_fold(self, stream: str, reducer: str, reducer_version: int) -> StoredFold | None:
        """Implement `EventStore.load_fold`."""
        self._require_open()
        fold = self._folds.get((stream, reducer))
        return fold if fold is not None and fold.reducer_version == reducer_version else None

    def record_refusal(self, refusal: Refusal) -> None:
        """Implement `EventStore.record_refusal`."""
        self._require_open()
        canonical_json(refusal.data, "refusal")
        self._refusals.append(refusal)

    def refusals(self, stream: str | None = None) -> Iterator[Refusal]:
        """Implement `EventStore.refusals`."""
        self._require_open()
        return (found for found in self._refusals if stream in (None, found.stream))

    def close(self) -> None:
        """Implement `EventStore.close`."""
        self._closed = True
