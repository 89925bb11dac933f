"""A log moved to another place: streamed, checked on the way and in the end, taken up again."""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from itertools import islice, zip_longest
from typing import Any, NamedTuple, Protocol, TypeVar

import orjson

from eventstore.chain import START, Link
from eventstore.errors import DamagedEvent, TransferConflict
from eventstore.store import Cargo, Claimed, EventStore, Raw, Refusal, StoredFold

_Item = TypeVar("_Item")

_BATCH = 1000
# Where the target keeps how far a copy has come: a fold of no stream.
_MARK = ("", "copy", 1)


class CopySource(Protocol):
    """What can be copied: a log, or an archive of one."""

    def all_raw(self) -> Iterator[Raw]:
        """See EventStore."""
        ...

    def streams(self) -> Iterator[str]:
        """See EventStore."""
        ...

    def commands(self) -> Iterator[Claimed]:
        """See EventStore."""
        ...

    def refusals(self, stream: str | None = None) -> Iterator[Refusal]:
        """See EventStore."""
        ...


class Copied(NamedTuple):
    """How much the target has of the source, and how much of it was there before."""

    streams: int
    events: int
    commands: int
    refusals: int
    before: int


class CopyStep(NamedTuple):
    """An event with its place."""

    stream: str
    version: int
    raw: Raw


class Chains:
    """The ends of the chains of several streams, each event checked as it is added."""

    def __init__(self) -> None:
        self.heads: dict[str, Link] = {}

    def added(self, raw: Raw) -> CopyStep:
        """The place of an event that continues its chain. Raises DamagedEvent."""
        body = _body(raw)
        stream = str(body.get("stream"))
        head = self.heads.get(stream, START)
        if sha256(raw.text.encode()).hexdigest() != raw.hash:
            raise DamagedEvent(raw.position, "a text that is not the one that was hashed")
        if (body.get("version"), body.get("prev_hash")) != (head.version + 1, head.hash):
            reason = f"no link to version {head.version} of {stream} in its chain"
            raise DamagedEvent(raw.position, reason)
        self.heads[stream] = Link(head.version + 1, raw.hash)
        return CopyStep(stream, head.version + 1, raw)


def _body(raw: Raw) -> dict[str, Any]:
    try:
        body = orjson.loads(raw.text)
    except orjson.JSONDecodeError as error:
        raise DamagedEvent(raw.position, str(error)) from error
    return body if isinstance(body, dict) else {}


def steps(source: CopySource, chains: Chains, only: str | None = None) -> Iterator[CopyStep]:
    """The events of a source, or of one stream of it, each checked. Raises DamagedEvent."""
    for raw in source.all_raw():
        if only is None or _body(raw).get("stream") == only:
            yield chains.added(raw)


def copy(source: CopySource, target: EventStore, *, only: str | None = None) -> Copied:
    """Copy a log, or `only` one stream of it, event for event into the target.

    An interrupted copy of the same source is taken up where it ended; until a copy is complete
    nobody may write to its streams. At the end the chains and the order in the target are checked.
    Raises TransferConflict where the target has one of the streams from elsewhere, DamagedEvent
    where the source is not whole.
    """
    first = next(steps(source, Chains(), only), None)
    if first is None:
        return Copied(0, 0, 0, 0, 0)
    progress = _begun(target, _Progress(first.raw.hash, only))
    if progress is None:
        require_vacant(source, target, only)
        progress = _Progress(first.raw.hash, only)
        target.save_fold(progress.as_fold())
    chains, before = Chains(), _Before(target)
    for batch in _batches(steps(source, chains, only)):
        target.take_in(Cargo([step.raw for step in batch if not before.has(step)]))
    commands = _copy_commands(source, target, chains.heads, progress)
    _check(source, target, chains.heads, only)
    progress = _copy_refusals(source, target, progress._replace(claiming=True))
    target.save_fold(progress._replace(done=True).as_fold())
    events = sum(head.version for head in chains.heads.values())
    return Copied(len(chains.heads), events, commands, progress.refusals, before.count)


class _Progress(NamedTuple):
    """Which copy the target takes in, and how far it has come beyond the events.

    `claiming`: commands may be there; `refusals`: so many of them are.
    """

    first: str
    stream: str | None
    done: bool = False
    claiming: bool = False
    refusals: int = 0

    def as_fold(self) -> StoredFold:
        """To be kept with what was taken in."""
        stream, reducer, version = _MARK
        return StoredFold(stream, reducer, version, 0, orjson.dumps(self._asdict()))


def _begun(target: EventStore, asked: _Progress) -> _Progress | None:
    """How far this very copy has come; another that was begun must be completed first."""
    fold = target.load_fold(*_MARK)
    found = _Progress(**orjson.loads(fold.state)) if fold is not None else None
    if found is None or found.done:
        return None
    if (found.first, found.stream) != (asked.first, asked.stream):
        raise TransferConflict("the log", "an unfinished copy of another one; complete that first")
    return found


class _Before:
    """What the target has already of the streams that are copied."""

    def __init__(self, target: EventStore) -> None:
        self._target = target
        self._heads: dict[str, Link] = {}
        self.count = 0

    def has(self, step: CopyStep) -> bool:
        """Whether the event is there; raises TransferConflict where another is in its place."""
        if step.stream not in self._heads:
            head = self._target.head(step.stream)
            self._heads[step.stream] = Link(head.version, head.hash) if head else START
        head_there = self._heads[step.stream]
        if step.version == head_there.version and step.raw.hash != head_there.hash:
            raise TransferConflict(step.stream, f"another history up to version {step.version}")
        there = step.version <= head_there.version
        self.count += there
        return there


def _batches(found: Iterator[_Item]) -> Iterator[list[_Item]]:
    while batch := list(islice(found, _BATCH)):
        yield batch


def require_vacant(source: CopySource, target: EventStore, only: str | None) -> None:
    """Raises TransferConflict where a stream to be copied is in the target."""
    for stream in source.streams():
        head = target.head(stream) if only in (None, stream) else None
        if head is not None:
            raise TransferConflict(stream, f"{head.version} events of it")


def _check(
    source: CopySource, target: EventStore, heads: Mapping[str, Link], only: str | None
) -> None:
    for stream, head in heads.items():
        found = target.verify(stream, anchors={stream: head})
        # A claim that the source has lost is no reason to keep its events from being saved.
        wrong = next((one for one in found if one.kind != "unclaimed"), None)
        if wrong is not None:
            raise TransferConflict(stream, wrong.message)
    given = islice(steps(source, Chains(), only), sum(head.version for head in heads.values()))
    taken = (raw for raw in target.all_raw() if _body(raw).get("stream") in heads)
    for step, raw in zip_longest(given, taken):
        if step is None or raw is None or step.raw.hash != raw.hash:
            raise TransferConflict("the order of events", f"{raw} in the place of {step}")


def _copy_commands(
    source: CopySource, target: EventStore, heads: Mapping[str, Link], progress: _Progress
) -> int:
    """Add the commands of the events that were copied; return how many they are."""
    number = 0
    there = target.commands() if progress.claiming else iter(())
    mark = progress._replace(claiming=True).as_fold()
    chosen = claimed_of(source, heads, progress.stream)
    for batch in _batches(_compared(chosen, there)):
        new = [command for command, is_there in batch if not is_there]
        target.take_in(Cargo((), new, (), [mark]))
        number += len(batch)
    return number


def claimed_of(
    source: CopySource, heads: Mapping[str, Link], only: str | None
) -> Iterator[Claimed]:
    """The commands of the events up to the heads: more may have come meanwhile."""
    for command in source.commands():
        known = command.last_version <= heads.get(command.stream, START).version
        if known and only in (None, command.stream):
            yield command


def _compared(
    commands: Iterator[Claimed], there: Iterator[Claimed]
) -> Iterator[tuple[Claimed, bool]]:
    """Each command, and whether it is there; both come in order of their ids."""
    other = next(there, None)
    for command in commands:
        while other is not None and other.command_id < command.command_id:
            other = next(there, None)
        yield command, other == command


def _copy_refusals(source: CopySource, target: EventStore, progress: _Progress) -> _Progress:
    """Add the refusals that come after those that are there; return how far it came."""
    rest = islice(source.refusals(progress.stream), progress.refusals, None)
    for batch in _batches(rest):
        progress = progress._replace(refusals=progress.refusals + len(batch))
        target.take_in(Cargo((), (), batch, [progress.as_fold()]))
    return progress
