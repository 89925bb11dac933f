"""What the logs in SQL databases have in common: how they are read, checked and answered from.

A command that reads loads nothing here of checking and of moving a log.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from eventstore.chain import START, Link
from eventstore.codec import Schema, canonical
from eventstore.errors import StoreDamaged, StoreUnreachable
from eventstore.event import Clock, NewEvent, RecordedEvent
from eventstore.reading import Reader, is_head, no_head
from eventstore.statements import Statements
from eventstore.store import (
    Appended,
    Claim,
    Claimed,
    Command,
    Head,
    Raw,
    Refusal,
    StoredFold,
    require_name,
    require_same,
)

if TYPE_CHECKING:
    from eventstore.verification import CommandSpan, Finding, StoredRow

_Key = TypeVar("_Key", int, str)

# Rows fetched at a time: each fetch is one short read, so a slow reader never holds up a writer
# or keeps the log from being folded into the file.
_CHUNK = 1000


class SqlStore:
    """An EventStore in a SQL database; how it appends, waits and is reached is for its engine."""

    def __init__(
        self, place: Path | str, sql: Statements, schema: Schema, clock: Clock, as_is: bool
    ) -> None:
        self._place = place
        self._sql = sql
        self._schema = schema
        self._clock = clock
        self._events = Reader(schema, as_is)
        self._closed = False

    @abstractmethod
    def _fetch(self, statement: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
        """The rows of a statement that reads. Raises StoreClosed."""

    def _fetch_rows(self, statement: str, parameters: tuple[Any, ...]) -> list[Any]:
        """As `_fetch`; a text that is no UTF-8 comes as it was found, for its hash to be judged."""
        try:
            return self._fetch(statement, parameters)
        except StoreDamaged:
            return self._fetch_damaged(statement, parameters)

    def _fetch_damaged(self, statement: str, parameters: tuple[Any, ...]) -> list[Any]:
        return self._fetch(statement, parameters)

    @abstractmethod
    def _write(self, *statements: tuple[str, tuple[Any, ...]]) -> None:
        """Carry out statements in one transaction. Raises StoreClosed."""

    @abstractmethod
    def _foreign_rules(self) -> Iterable[str]:
        """What would act on rows of the log, and is none of ours."""

    def _engine_findings(self) -> Iterable[str]:
        """What the engine finds wrong with its own database."""
        return ()

    def _require_new(self, stream: str, events: Sequence[NewEvent]) -> None:
        require_name(stream)
        for event in events:
            self._schema.check_new(event)

    def _answer(self, known: Command) -> Appended:
        found = self.read(known.stream, after=known.first_version - 1, upto=known.last_version)
        return Appended(tuple(found), True)

    def _known(self, command_id: str) -> Command | None:
        rows = self._fetch(self._sql.command, (command_id,))
        return Command(*rows[0]) if rows else None

    def claimed(self, claim: Claim) -> Appended | None:
        """See EventStore."""
        known = self._known(claim.command_id)
        if known is None:
            return None
        require_same(claim, known)
        return self._answer(known)

    def claim(self, command_id: str) -> Claim | None:
        """See EventStore."""
        known = self._known(command_id)
        return None if known is None else Claim(command_id, known.digest)

    def read(
        self, stream: str, *, after: int | Link = 0, upto: int | None = None
    ) -> Iterator[RecordedEvent]:
        """See EventStore."""
        link = after if isinstance(after, Link) else self._link(stream, after)
        rows = self._stored(stream, link.version, sys.maxsize if upto is None else upto)
        yield from self._events.events(rows, stream, link)

    def _link(self, stream: str, version: int) -> Link:
        if version <= 0:
            return START
        before = self._fetch_rows(self._sql.read, (stream, version - 1, version, 1))
        return self._events.link(before, stream, version)

    def _stored(self, stream: str, after: int, upto: int) -> Iterator[Any]:
        """The rows of a stream, with every column, in order of version."""
        while rows := self._fetch_rows(self._sql.read, (stream, after, upto, _CHUNK)):
            yield from rows
            after = self._onward(after, rows[-1][2])

    def _onward(self, before: _Key, after: _Key) -> _Key:
        """Where the next fetch begins: a damaged index may lead backwards, and so for ever."""
        if type(after) is not type(before) or after <= before:
            raise StoreDamaged(self._place, f"rows out of order: {after!r} after {before!r}")
        return after

    def read_all(self, *, after: int = 0, limit: int | None = None) -> Iterator[RecordedEvent]:
        """See EventStore."""
        return self._events.all_events(self._all_stored(after, limit), self._link)

    def _all_stored(self, after: int, limit: int | None) -> Iterator[Any]:
        left = sys.maxsize if limit is None else limit
        while rows := self._fetch_rows(self._sql.read_all, (after, min(_CHUNK, left))):
            yield from rows
            after = self._onward(after, rows[-1][0])
            left -= len(rows)

    def raw(self, stream: str, *, after: int = 0, upto: int | None = None) -> Iterator[Raw]:
        """See EventStore."""
        end = sys.maxsize if upto is None else upto
        for position, *_, hash_, text in self._stored(stream, after, end):
            yield Raw(position, text, hash_)

    def all_raw(self) -> Iterator[Raw]:
        """See EventStore."""
        from eventstore.intake import all_raw

        return all_raw(self._fetch, self._sql)

    def commands(self) -> Iterator[Claimed]:
        """See EventStore. A row that holds other things than a claim was written past us."""
        from eventstore.intake import CLAIM

        after = ""
        while rows := self._fetch(self._sql.commands, (after, _CHUNK)):
            yield from (Claimed(*row) for row in rows if all(map(isinstance, row, CLAIM)))
            after = rows[-1][0]

    def rows(self, stream: str) -> Iterator[StoredRow]:
        """Every column of a stream's rows, in order of version; damaged text is kept as found."""
        from eventstore.verification import StoredRow

        after = 0
        while found := self._fetch_damaged(self._sql.rows, (stream, after, _CHUNK)):
            yield from (StoredRow(*row) for row in found)
            after = self._onward(after, found[-1][2])

    def extent(self) -> tuple[int, int]:
        """Number of events, and the last position."""
        ((count, last),) = self._fetch(self._sql.extent)
        return count, last or 0

    def spans(self, command_ids: Sequence[str]) -> dict[str, CommandSpan]:
        """What each of these commands recorded."""
        from eventstore.verification import CommandSpan

        rows = self._fetch_damaged(self._sql.spans, (self._as_one(command_ids),))
        return {id_: CommandSpan(*span) for id_, *span in rows}

    def _as_one(self, values: Sequence[str]) -> Any:
        """Several values as one parameter."""
        return list(values)

    def head(self, stream: str) -> Head | None:
        """See EventStore."""
        rows = self._fetch(self._sql.head, (stream,))
        if rows and not is_head(rows[0]):
            raise no_head(stream, self.read(stream))
        return Head(*rows[0]) if rows else None

    def streams(self) -> Iterator[str]:
        """See EventStore."""
        name = ""
        while rows := self._fetch(self._sql.next_stream, (name,)):
            name = self._onward(name, rows[0][0])
            yield name

    def verify(
        self, stream: str | None = None, *, anchors: Mapping[str, Link] | None = None
    ) -> Iterator[Finding]:
        """See EventStore; the database itself is looked at too."""
        from eventstore.verification import Finding, findings

        try:
            for message in self._engine_findings() if stream is None else ():
                yield Finding(None, None, None, "engine", message)
            for rule in self._foreign_rules():
                message = f"expected the triggers and tables that wfctl made, found {rule}"
                yield Finding(stream, None, None, "foreign_rule", message)
            yield from findings(self, self._schema, stream, anchors or {})
        except StoreDamaged as error:
            yield Finding(stream, None, None, "engine", error.reason)

    def strays(self) -> Iterator[Finding]:
        """See EventStore."""
        from eventstore.strays import strays

        return strays(self._fetch_rows, self._sql)

    def save_fold(self, fold: StoredFold) -> None:
        """See EventStore."""
        old = (self._sql.delete_fold, (fold.stream, fold.reducer))
        self._write(old, (self._sql.insert_fold, fold))

    def load_fold(self, stream: str, reducer: str, reducer_version: int) -> StoredFold | None:
        """See EventStore."""
        rows = self._fetch(self._sql.fold, (stream, reducer, reducer_version))
        return StoredFold(*rows[0]) if rows else None

    def record_refusal(self, refusal: Refusal) -> None:
        """See EventStore."""
        data = canonical(refusal.data, "refusal").decode()
        self._write((self._sql.insert_refusal, (*refusal[:-1], data)))

    def refusals(self, stream: str | None = None) -> Iterator[Refusal]:
        """See EventStore."""
        from eventstore.intake import all_refusals

        return all_refusals(self._fetch_rows, self._sql, stream)

    def be_patient(self, asks_again: Callable[[StoreUnreachable, float], bool]) -> None:
        """See EventStore."""
