"""The port of an event log: what it takes, answers and refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from eventstore.chain import Link
from eventstore.errors import CommandConflict, InvalidData, WrongExpectedVersion
from eventstore.event import NewEvent, RecordedEvent

if TYPE_CHECKING:
    from eventstore.errors import StoreUnreachable
    from eventstore.verification import CommandSpan, Finding


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


class EventStore(Protocol):
    """An append-only log of streams, used by one thread at a time."""

    def append(
        self,
        stream: str,
        events: Sequence[NewEvent],
        *,
        expected: int | Expected,
        claim: Claim,
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
        ...

    def claimed(self, claim: Claim) -> Appended | None:
        """The first answer to a command, None if it is new. Raises CommandConflict."""
        ...

    def claim(self, command_id: str) -> Claim | None:
        """The claim under which a command was recorded, None where none was."""
        ...

    def spans(self, command_ids: Sequence[str]) -> Mapping[str, CommandSpan]:
        """What each of these commands claims to have recorded, by its id; few at a time."""
        ...

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
        ...

    def read_all(self, *, after: int = 0, limit: int | None = None) -> Iterator[RecordedEvent]:
        """Events of all streams with position > after, in order of position, at most `limit`.

        Each is held to its place in its stream, as by `read`.
        """
        ...

    def wait(self, after: int, timeout: float) -> int:
        """The last position of the log, as soon as it is beyond `after`; at most `timeout` seconds.

        Wakes within half a second of an append by whatever process, without busy polling.
        """
        ...

    def raw(self, stream: str, *, after: int = 0, upto: int | None = None) -> Iterator[Raw]:
        """The stored events of a stream as they were hashed, in order, undecoded.

        From the version behind `after` on, to `upto`.
        """
        ...

    def all_raw(self) -> Iterator[Raw]:
        """The stored events of all streams as they were hashed, in order of position."""
        ...

    def commands(self) -> Iterator[Claimed]:
        """Every claimed command, in order of its id."""
        ...

    def take_in(self, cargo: Cargo) -> None:
        """Record what another log holds, as it was hashed there, in one transaction.

        Positions are new, in the order given; that the events continue their streams is for the
        caller to see to. Raises TransferConflict where something of it is here already.
        """
        ...

    def head(self, stream: str) -> Head | None:
        """The last event of a stream, None if there is no stream. Does not grow with its length."""
        ...

    def streams(self) -> Iterator[str]:
        """Names of all streams, sorted."""
        ...

    def verify(
        self, stream: str | None = None, *, anchors: Mapping[str, Link] | None = None
    ) -> Iterator[Finding]:
        """Everything wrong with the log (or one stream), first bad version first.

        `anchors` says, by stream, a version and hash known from elsewhere: only with them can a
        cut tail or a history written anew be told from an honest one.
        """
        ...

    def strays(self) -> Iterator[Finding]:
        """Every row beside the events that is no claim and no refusal, of all streams.

        Such rows change nothing; somebody wrote them past us. Their kind is `stray`.
        """
        ...

    def save_fold(self, fold: StoredFold) -> None:
        """Keep a reducer's state, in place of the one kept before."""
        ...

    def load_fold(self, stream: str, reducer: str, reducer_version: int) -> StoredFold | None:
        """The kept state; None if nothing was kept or another version of the reducer made it."""
        ...

    def record_refusal(self, refusal: Refusal) -> None:
        """Keep a refusal for audit. It is no event and in no chain."""
        ...

    def refusals(self, stream: str | None = None) -> Iterator[Refusal]:
        """Kept refusals in the order they were recorded."""
        ...

    def be_patient(self, asks_again: Callable[[StoreUnreachable, float], bool]) -> None:
        """Ask a server that went away for as long as ``asks_again`` says so, of its seconds away.

        A log without a server needs no patience.
        """
        ...

    def close(self) -> None:
        """Give back files and locks; a second call does nothing."""
        ...


class Command(NamedTuple):
    """A claimed command and the versions that it recorded; none if first is after last."""

    stream: str
    digest: str
    first_version: int
    last_version: int


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


def require_same(claim: Claim, known: Command, stream: str | None = None) -> None:
    """Raises CommandConflict unless the claim is the known command's."""
    if claim.digest != known.digest or stream not in (None, known.stream):
        raise CommandConflict(claim.command_id, known.stream)


def require_name(stream: str) -> None:
    """Raises InvalidData unless every engine can store the name of the stream."""
    if not stream or "\0" in stream:
        raise InvalidData("stream", f"the name {stream!r}")


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
