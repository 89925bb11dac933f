"""An event log: what it takes, answers and refuses, and how it is read from a SQL database.

A command that reads loads nothing here of checking and of moving a log.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from eventstore.chain import START, Link, Schema, canonical
from eventstore.errors import (
    CommandConflict,
    ForeignRule,
    InvalidData,
    StoreDamaged,
    StoreUnreachable,
    UnsoundLog,
    WrongExpectedVersion,
)
from eventstore.event import Clock, NewEvent, RecordedEvent
from eventstore.sql import Reader, Statements

if TYPE_CHECKING:
    from eventstore.verification import CommandSpan, Finding, StoredRow


class Expected(Enum):
    """What a writer may expect of a stream instead of an exact version."""

    ANY = "any version"
    NO_STREAM = "no stream"
    STREAM_EXISTS = "an existing stream"


class Claim(NamedTuple):
    """A command's idempotency key and the digest of its content."""

    command_id: str
    digest: str


class Appended:
    """The events of a command; `repeated` when an earlier append recorded them."""

    __slots__ = ("_events", "repeated")

    def __init__(self, events: Iterable[RecordedEvent], repeated: bool) -> None:
        self._events = events
        self.repeated = repeated

    @property
    def events(self) -> tuple[RecordedEvent, ...]:
        """As `read` gives them; an iterable is drawn at the first look, as many never look."""
        if not isinstance(self._events, tuple):
            self._events = tuple(self._events)
        return self._events


class Head(NamedTuple):
    """The last event of a stream."""

    version: int
    position: int
    hash: str


class Raw(NamedTuple):
    """A stored event exactly as it was hashed: `hash` is the SHA-256 of `text` in UTF-8."""

    position: int
    text: str
    hash: str


class StoredFold(NamedTuple):
    """The state of a reducer after `version` of a stream: a cache, never a source."""

    stream: str
    reducer: str
    reducer_version: int
    version: int
    state: bytes


class Refusal(NamedTuple):
    """A command that the rules refused. `at` is UTC: `YYYY-MM-DDTHH:MM:SS.ffffffZ`."""

    at: str
    stream: str
    actor: str
    command: str
    code: str
    message: str
    data: dict[str, Any]


class Claimed(NamedTuple):
    """A claimed command and the versions that it recorded; none if first is after last."""

    command_id: str
    stream: str
    digest: str
    first_version: int
    last_version: int


class Cargo(NamedTuple):
    """What one log takes in from another, in one transaction."""

    events: Sequence[Raw] = ()
    commands: Sequence[Claimed] = ()
    refusals: Sequence[Refusal] = ()
    folds: Sequence[StoredFold] = ()


def is_met(expected: int | Expected, found: int) -> bool:
    """Whether a stream at version `found` (0: none) is as expected."""
    if isinstance(expected, int):
        return expected == found
    if expected is Expected.NO_STREAM:
        return found == 0
    return expected is Expected.ANY or found > 0


def require_version(stream: str, expected: int | Expected, found: int) -> None:
    """Raises WrongExpectedVersion unless a stream at `found` (0: none) is as expected."""
    if not is_met(expected, found):
        demand = expected if isinstance(expected, int) else expected.value
        raise WrongExpectedVersion(stream, demand, found)


def require_own_rules(foreign: Iterator[str], place: Path | str) -> None:
    """Refuse to write where somebody else's rule would decide what is kept. Raises ForeignRule."""
    for found in foreign:
        raise ForeignRule(place, found)


def require_same(claim: Claim, known: Claimed, stream: str | None = None) -> None:
    """Raises CommandConflict unless the claim is the known command's."""
    if claim.digest != known.digest or stream not in (None, known.stream):
        raise CommandConflict(claim.command_id, known.stream)


def require_name(stream: str) -> None:
    """Raises InvalidData unless every engine can store the name of the stream."""
    if not stream or "\0" in stream:
        raise InvalidData("stream", f"the name {stream!r}")


_Key = TypeVar("_Key", int, str)
Fetch = Callable[[str, tuple[Any, ...]], list[Any]]

# Rows fetched at a time: each fetch is one short read, so a slow reader never holds up a writer
# or keeps the log from being folded into the file.
_CHUNK = 1000


def pages(fetch: Fetch, statement: str, after: int | str) -> Iterator[Any]:
    """The rows of a statement that takes where to go on and a limit; the first column says where.

    They are as they are found: what somebody wrote past us may be in no order.
    """
    while rows := fetch(statement, (after, _CHUNK)):
        yield from rows
        after = rows[-1][0]


class EventStore:
    """An append-only log of streams in a SQL database, used by one thread at a time.

    How it appends, waits and is reached is for its engine.
    """

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
        """What would act on rows of the log and was not created by wfctl."""

    def _engine_findings(self) -> Iterable[str]:
        """What the engine finds wrong with its own database."""
        return ()

    @abstractmethod
    def append(
        self, stream: str, events: Sequence[NewEvent], *, expected: int | Expected, claim: Claim
    ) -> Appended:
        """Record `events` at the end of `stream`, all or none, in one transaction.

        When it returns, the events survive the death of the process and loss of power.
        The claim is looked up before the version is checked: the same digest gives the first
        answer with `repeated` set and records nothing, for as long as the log exists.
        Versions continue the stream's without a gap; positions are in commit order, and no reader
        ever sees a position before all smaller ones. Time and offset are taken inside.

        Raises CommandConflict, WrongExpectedVersion, EventIdReused, InvalidData, SchemaError,
        StoreBusy (after the bounded wait), StoreUnwritable, StoreUnreachable. After an error
        nothing is recorded, unless the machine failed, or the server went away, while it was
        committing: repeat with the same claim to know.
        """

    def _require_new(self, stream: str, events: Sequence[NewEvent]) -> None:
        require_name(stream)
        for event in events:
            self._schema.check_new(event)

    def _answer(self, known: Claimed) -> Appended:
        found = self.read(known.stream, after=known.first_version - 1, upto=known.last_version)
        return Appended(tuple(found), True)

    def _known(self, command_id: str) -> Claimed | None:
        rows = self._fetch(self._sql.command, (command_id,))
        return Claimed(command_id, *rows[0]) if rows else None

    def claimed(self, claim: Claim) -> Appended | None:
        """The first answer to a command, None if it is new. Raises CommandConflict."""
        known = self._known(claim.command_id)
        if known is None:
            return None
        require_same(claim, known)
        return self._answer(known)

    def claim(self, command_id: str) -> Claim | None:
        """The claim under which a command was recorded, None if none was."""
        known = self._known(command_id)
        return None if known is None else Claim(command_id, known.digest)

    def read(
        self, stream: str, *, after: int | Link = 0, upto: int | None = None
    ) -> Iterator[RecordedEvent]:
        """Events with after < version <= upto in order, streamed; none if there is no stream.

        Each is held to its place: its text has the hash of its row, states the link to the version
        before, its own version and stream, and what its columns say. The link of the first is
        `after`, where the caller knows one; else it is taken from the row of that version, which is
        held to its own text.
        Takes no lock that a writer waits for. Raises UnsoundLog at the first event that is not in
        its place, a SchemaError at one that this program cannot read, and never changes the log.
        """
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

    def read_all(self, *, after: int = 0) -> Iterator[RecordedEvent]:
        """Events of all streams with position > after, in order of position.

        Each is held to its place in its stream, as by `read`.
        """
        return self._events.all_events(self._all_stored(after), self._link)

    def _all_stored(self, after: int) -> Iterator[Any]:
        while rows := self._fetch_rows(self._sql.read_all, (after, _CHUNK)):
            yield from rows
            after = self._onward(after, rows[-1][0])

    def raw(self, stream: str, *, after: int = 0, upto: int | None = None) -> Iterator[Raw]:
        """The stored events of a stream as they were hashed, in order, undecoded.

        From the version behind `after` on, to `upto`.
        """
        end = sys.maxsize if upto is None else upto
        for position, *_, hash_, text in self._stored(stream, after, end):
            yield Raw(position, text, hash_)

    def all_raw(self) -> Iterator[Raw]:
        """The stored events of all streams as they were hashed, in order of position."""
        for position, *_, hash_, text in pages(self._fetch, self._sql.read_all, 0):
            yield Raw(position, text, hash_)

    def commands(self) -> Iterator[Claimed]:
        """Every claimed command, in order of its id.

        A row that holds other things than a claim was written past us.
        """
        from eventstore.verification import CLAIM

        rows = pages(self._fetch, self._sql.commands, "")
        return (Claimed(*row) for row in rows if all(map(isinstance, row, CLAIM)))

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
        """The last event of a stream, None if there is no stream. Does not grow with its length."""
        rows = self._fetch(self._sql.head, (stream,))
        if rows and not all(map(isinstance, rows[0], (int, int, str))):
            last = 0
            for event in self.read(stream):
                last = event.version
            reason = "the columns of its row are of other types"
            raise UnsoundLog(stream, last + 1, "malformed", reason)
        return Head(*rows[0]) if rows else None

    def streams(self) -> Iterator[str]:
        """Names of all streams, sorted."""
        name = ""
        while rows := self._fetch(self._sql.next_stream, (name,)):
            name = self._onward(name, rows[0][0])
            yield name

    def verify(
        self, stream: str | None = None, *, anchors: Mapping[str, Link] | None = None
    ) -> Iterator[Finding]:
        """Everything wrong with the log (or one stream), first bad version first.

        `anchors` says, by stream, a version and hash known from elsewhere: only with them can a
        cut tail or a history written anew be told from an honest one.
        """
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
        """Every row beside the events that is no claim and no refusal, of all streams.

        They change nothing, for a claim counts by the event it names and a refusal by what it
        says. Yet somebody wrote them past us, and anyone who looks at the log should know.
        """
        from eventstore.verification import Finding, fault_of_claim, refused

        def stray(stream: Any, message: str) -> Finding:
            named = stream if isinstance(stream, str) else None
            return Finding(named, None, None, "stray", f"{message}; it is ignored")

        for row in pages(self._fetch_rows, self._sql.claims, ""):
            why = fault_of_claim(row)
            if why is not None:
                yield stray(row[1], f"commands, {row[0]!r:.80}: {why}")
        for row in pages(self._fetch_rows, self._sql.refusals, 0):
            found = refused(row[1:])
            if isinstance(found, str):
                yield stray(row[2], f"refusals, row {row[0]}: {found}")

    def save_fold(self, fold: StoredFold) -> None:
        """Keep a reducer's state, in place of the one kept before."""
        old = (self._sql.delete_fold, (fold.stream, fold.reducer))
        self._write(old, (self._sql.insert_fold, fold))

    def load_fold(self, stream: str, reducer: str, reducer_version: int) -> StoredFold | None:
        """The kept state; None if nothing was kept or another version of the reducer made it."""
        rows = self._fetch(self._sql.fold, (stream, reducer, reducer_version))
        return StoredFold(*rows[0]) if rows else None

    def record_refusal(self, refusal: Refusal) -> None:
        """Keep a refusal for audit. It is no event and in no chain."""
        data = canonical(refusal.data, "refusal").decode()
        self._write((self._sql.insert_refusal, (*refusal[:-1], data)))

    def refusals(self, stream: str | None = None) -> Iterator[Refusal]:
        """Kept refusals, of all streams or of one, in the order they were recorded.

        A row that cannot be one, which somebody wrote past us, does not count.
        """
        from eventstore.verification import refused

        found = (refused(row[1:]) for row in pages(self._fetch_rows, self._sql.refusals, 0))
        kept = (Refusal(*parts) for parts in found if not isinstance(parts, str))
        return (one for one in kept if stream in (None, one.stream))

    @abstractmethod
    def wait(self, after: int, timeout: float) -> int:
        """The last position of the log, as soon as it is beyond `after`; at most `timeout` seconds.

        Wakes within half a second of an append by whatever process, without busy polling.
        """

    @abstractmethod
    def take_in(self, cargo: Cargo) -> None:
        """Record what another log holds, as it was hashed there, in one transaction.

        Positions are new, in the order given; that the events continue their streams is for the
        caller to see to. Raises TransferConflict where something of it is here already.
        """

    @abstractmethod
    def close(self) -> None:
        """Give back files and locks; a second call does nothing."""

    def be_patient(self, asks_again: Callable[[StoreUnreachable, float], bool]) -> None:
        """Ask a server that went away for as long as ``asks_again`` says so, of its seconds away.

        A log without a server needs no patience.
        """


# Seconds after which a reader looks again even if nothing woke it.
_AT_THE_LATEST = 60.0


def subscribed(
    store: EventStore, *, after: int = 0, stream: str | None = None
) -> Iterator[RecordedEvent]:
    """Every event after position `after`, in order, for ever; with a stream, after that version.

    An event that another process appends is there within half a second, and nothing is done
    meanwhile. Each event comes at least once: the reader keeps the position (or version) of the
    last event it is done with, and begins again after that one.
    Raises what reading raises; on a server, StoreUnreachable where it stays away for longer than
    the store waits.
    """
    position = 0
    while True:
        found = store.read_all(after=after) if stream is None else store.read(stream, after=after)
        for event in found:
            after = event.position if stream is None else event.version
            yield event
        position = store.wait(position, _AT_THE_LATEST)
