"""Copy a log into another one and check each event. An interrupted copy can be resumed."""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from itertools import islice, zip_longest
from typing import Any, NamedTuple, Protocol, TypeVar

import orjson

from eventstore.chain import START, Link
from eventstore.errors import DamagedEvent, TransferConflict
from eventstore.store import EventStore, ExecutedCommand, ImportBatch, RawEvent, Refusal, StoredFold

_Item = TypeVar("_Item")

_BATCH = 1000
# Key under which the target log stores the progress of a copy. The progress is stored like the
# state of a reducer, with an empty stream name.
_MARK = ("", "copy", 1)


class CopySource(Protocol):
    """The interface of a source to copy events from: a log or an archive file."""

    def all_raw(self) -> Iterator[RawEvent]:
        """See EventStore."""
        ...

    def streams(self) -> Iterator[str]:
        """See EventStore."""
        ...

    def commands(self) -> Iterator[ExecutedCommand]:
        """See EventStore."""
        ...

    def refusals(self, stream: str | None = None) -> Iterator[Refusal]:
        """See EventStore."""
        ...


class CopyCounts(NamedTuple):
    """The numbers of records that a copy has transferred.

    `before` is the number of events that the target already had.
    """

    streams: int
    events: int
    commands: int
    refusals: int
    before: int


class CopyStep(NamedTuple):
    """An event to copy, with its stream and its version in the stream."""

    stream: str
    version: int
    raw: RawEvent


class Chains:
    """The last hashes of several streams. Each added event is checked against them."""

    def __init__(self) -> None:
        self.heads: dict[str, Link] = {}

    def check_and_add(self, raw: RawEvent) -> CopyStep:
        """Check that an event continues its stream, and return it with its stream and version.

        Raises DamagedEvent if the hash, version or previous hash does not match.
        """
        body = _parse_body(raw)
        stream = str(body.get("stream"))
        head = self.heads.get(stream, START)
        if sha256(raw.text.encode()).hexdigest() != raw.hash:
            raise DamagedEvent(
                raw.position, ("the content of the event does not match its recorded hash")
            )
        if (body.get("version"), body.get("prev_hash")) != (head.version + 1, head.hash):
            reason = f"the event does not continue version {head.version} of {stream}"
            raise DamagedEvent(raw.position, reason)
        self.heads[stream] = Link(head.version + 1, raw.hash)
        return CopyStep(stream, head.version + 1, raw)


def _parse_body(raw: RawEvent) -> dict[str, Any]:
    try:
        body = orjson.loads(raw.text)
    except orjson.JSONDecodeError as error:
        raise DamagedEvent(raw.position, str(error)) from error
    return body if isinstance(body, dict) else {}


def iterate_checked_events(
    source: CopySource, chains: Chains, only: str | None = None
) -> Iterator[CopyStep]:
    """Check each event of a source, and yield it with its stream and version.

    With `only`, yield the events of this stream. Raises DamagedEvent.
    """
    for raw in source.all_raw():
        if only is None or _parse_body(raw).get("stream") == only:
            yield chains.check_and_add(raw)


def copy_log(source: CopySource, target: EventStore, *, only: str | None = None) -> CopyCounts:
    """Copy a log, or `only` one of its streams, event by event into the target.

    An interrupted copy of the same source is continued. Nobody may write to the copied streams
    before the copy is complete. At the end, the hash chains and the order of events in the target
    are checked. Raises TransferConflict if the target already has one of the streams from
    elsewhere, and DamagedEvent if the source is damaged.
    """
    first = next(iterate_checked_events(source, Chains(), only), None)
    if first is None:
        return CopyCounts(0, 0, 0, 0, 0)
    progress = _load_progress(target, _Progress(first.raw.hash, only))
    if progress is None:
        require_no_common_stream(source, target, only)
        progress = _Progress(first.raw.hash, only)
        target.save_fold(progress.as_fold())
    chains, before = Chains(), _ExistingEvents(target)
    for batch in _split_in_batches(iterate_checked_events(source, chains, only)):
        target.import_batch(ImportBatch([step.raw for step in batch if not before.has(step)]))
    commands = _copy_commands(source, target, chains.heads, progress)
    _check_target(source, target, chains.heads, only)
    progress = _copy_refusals(source, target, progress._replace(claiming=True))
    target.save_fold(progress._replace(done=True).as_fold())
    events = sum(head.version for head in chains.heads.values())
    return CopyCounts(len(chains.heads), events, commands, progress.refusals, before.count)


class _Progress(NamedTuple):
    """The identity of a copy (its first event and stream), and its progress.

    `claiming` means that the target may already contain commands. `refusals` is the number of
    copied refusals.
    """

    first: str
    stream: str | None
    done: bool = False
    claiming: bool = False
    refusals: int = 0

    def as_fold(self) -> StoredFold:
        """Return the progress as a stored reducer state, for saving it in the target log."""
        stream, reducer, version = _MARK
        return StoredFold(stream, reducer, version, 0, orjson.dumps(self._asdict()))


def _load_progress(target: EventStore, asked: _Progress) -> _Progress | None:
    """Return the saved progress of this copy, or None if the copy is new or complete.

    Raises TransferConflict if a copy of another log is unfinished.
    """
    fold = target.load_fold(*_MARK)
    found = _Progress(**orjson.loads(fold.state)) if fold is not None else None
    if found is None or found.done:
        return None
    if (found.first, found.stream) != (asked.first, asked.stream):
        raise TransferConflict(
            "the log", "an unfinished copy of another log. Complete the copy of that log first"
        )
    return found


class _ExistingEvents:
    """Detects and counts the events that the target already has."""

    def __init__(self, target: EventStore) -> None:
        self._target = target
        self._heads: dict[str, Link] = {}
        self.count = 0

    def has(self, step: CopyStep) -> bool:
        """Return whether the target already has the event.

        Raises TransferConflict if the target has a different event at this place.
        """
        if step.stream not in self._heads:
            head = self._target.head(step.stream)
            self._heads[step.stream] = Link(head.version, head.hash) if head else START
        head_there = self._heads[step.stream]
        if step.version == head_there.version and step.raw.hash != head_there.hash:
            raise TransferConflict(step.stream, f"a different history up to version {step.version}")
        there = step.version <= head_there.version
        self.count += there
        return there


def _split_in_batches(found: Iterator[_Item]) -> Iterator[list[_Item]]:
    while batch := list(islice(found, _BATCH)):
        yield batch


def require_no_common_stream(source: CopySource, target: EventStore, only: str | None) -> None:
    """Raise TransferConflict if the target already has a stream of the source.

    With `only`, check this stream alone.
    """
    for stream in source.streams():
        head = target.head(stream) if only in (None, stream) else None
        if head is not None:
            raise TransferConflict(stream, f"{head.version} events of this stream")


def _check_target(
    source: CopySource, target: EventStore, heads: Mapping[str, Link], only: str | None
) -> None:
    for stream, head in heads.items():
        found = target.verify(stream, anchors={stream: head})
        # Ignore missing command records: they may be missing in the source too, and must not
        # prevent copying its events.
        wrong = next((one for one in found if one.kind != "unclaimed"), None)
        if wrong is not None:
            raise TransferConflict(stream, wrong.message)
    given = islice(
        iterate_checked_events(source, Chains(), only), sum(head.version for head in heads.values())
    )
    taken = (raw for raw in target.all_raw() if _parse_body(raw).get("stream") in heads)
    for step, raw in zip_longest(given, taken):
        if step is None or raw is None or step.raw.hash != raw.hash:
            raise TransferConflict("the order of events", f"{raw} instead of {step}")


def _copy_commands(
    source: CopySource, target: EventStore, heads: Mapping[str, Link], progress: _Progress
) -> int:
    """Copy the records of the commands that created the copied events.

    Return the number of these commands.
    """
    number = 0
    there = target.commands() if progress.claiming else iter(())
    mark = progress._replace(claiming=True).as_fold()
    chosen = iterate_commands_to_copy(source, heads, progress.stream)
    for batch in _split_in_batches(_mark_existing_commands(chosen, there)):
        new = [command for command, is_there in batch if not is_there]
        target.import_batch(ImportBatch((), new, (), [mark]))
        number += len(batch)
    return number


def iterate_commands_to_copy(
    source: CopySource, heads: Mapping[str, Link], only: str | None
) -> Iterator[ExecutedCommand]:
    """Yield the commands whose events the copy contains, without commands recorded later.

    `heads` gives the last copied version of each stream. With `only`, yield the commands of this
    stream.
    """
    for command in source.commands():
        known = command.last_version <= heads.get(command.stream, START).version
        if known and only in (None, command.stream):
            yield command


def _mark_existing_commands(
    commands: Iterator[ExecutedCommand], there: Iterator[ExecutedCommand]
) -> Iterator[tuple[ExecutedCommand, bool]]:
    """Yield each command together with a flag: whether the target already has it.

    Both iterators must be in order of the command ids.
    """
    other = next(there, None)
    for command in commands:
        while other is not None and other.command_id < command.command_id:
            other = next(there, None)
        yield command, other == command


def _copy_refusals(source: CopySource, target: EventStore, progress: _Progress) -> _Progress:
    """Copy the refusals (refused commands) that are not copied yet, and return the new progress."""
    rest = islice(source.refusals(progress.stream), progress.refusals, None)
    for batch in _split_in_batches(rest):
        progress = progress._replace(refusals=progress.refusals + len(batch))
        target.import_batch(ImportBatch((), (), batch, [progress.as_fold()]))
    return progress
