"""The text of an event as it is stored and hashed, and the chain of hashes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, NamedTuple

import orjson

from eventstore.errors import (
    NOT_KNOWN,
    TO_DO,
    DamagedEvent,
    InvalidData,
    MissingUpcaster,
    NewerEventSchema,
    OlderEventSchema,
    SchemaError,
    UnknownStoredType,
)
from eventstore.event import NewEvent, RecordedEvent, fault, set_aside

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]
Misfit = Callable[[str, dict[str, Any]], str | None]
Unknown = Callable[[SchemaError], None]

_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS


_SHA256 = sha256()
_LISTS = (list, tuple)
_HARMLESS = frozenset({str, int, bool, type(None)})


def canonical(value: Any, where: str = "value") -> bytes:
    """Canonical JSON: sorted keys, no spaces, UTF-8. Raises InvalidData naming `where`."""
    text = encoded(value, where)
    # The encoder writes NaN and infinity as null, so only a null can hide one.
    if b"null" in text:
        require_finite(value, where)
    return text


def encoded(value: Any, where: str) -> bytes:
    """As `canonical`, for numbers known to be finite."""
    try:
        return orjson.dumps(value, option=_OPTIONS)
    except TypeError as error:
        raise InvalidData(where, str(error)) from error


def require_finite(value: Any, where: str) -> None:
    """Raises InvalidData naming `where` if there is a number in it that JSON cannot say."""
    if isinstance(value, dict):
        value = value.values()
    elif isinstance(value, float) and not math.isfinite(value):
        raise InvalidData(where, "a number that is not finite")
    elif not isinstance(value, _LISTS):
        return
    # Most values are flat and hold texts and null: one look at their types is enough.
    if not _HARMLESS.issuperset(map(type, value)):
        for part in value:
            require_finite(part, where)


def digest(text: bytes) -> str:
    """SHA-256 as 64 hexadecimal digits."""
    # A copy, as to look the algorithm up takes a third of the time.
    found = _SHA256.copy()
    found.update(text)
    return found.hexdigest()


def _fits(type_: str, data: dict[str, Any]) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Schema:
    """The event types of a program.

    `versions` gives the current schema version of each type; `upcasters` lifts `data` of
    (type, version) to version + 1; `misfit` says why the data of a type cannot be it, None if it
    can. `unknown` is told of an event that the program does not know, which is set aside then;
    without it, such an event ends the reading.
    """

    versions: Mapping[str, int]
    upcasters: Mapping[tuple[str, int], Upcaster] = field(default_factory=dict)
    misfit: Misfit = _fits
    unknown: Unknown | None = None

    def decode(self, position: int, hash_: str, text: str | bytes) -> RecordedEvent:
        """The recorded event of a text of ours, lifted. Raises SchemaError, DamagedEvent."""
        try:
            body: dict[str, Any] = orjson.loads(text)
            if self.versions.get(body["type"]) != body["schema_version"]:
                self._lift(body)
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedEvent(position, str(error)) from error
        return RecordedEvent(position, hash_, body)

    def event(self, position: int, hash_: str, body: dict[str, Any]) -> RecordedEvent:
        """The recorded event of a stored envelope, lifted; set aside where it cannot be one.

        Raises SchemaError, DamagedEvent.
        """
        try:
            why = fault(body) or self._lifted(body) or self.misfit(body["type"], body["data"])
            return RecordedEvent(position, hash_, body if why is None else set_aside(body, why))
        except (KeyError, TypeError, AttributeError) as error:
            raise DamagedEvent(position, str(error)) from error

    def _lifted(self, body: dict[str, Any]) -> str | None:
        """Lift the data; why that cannot be done with what it holds."""
        if self.versions.get(body["type"]) == body["schema_version"]:
            return None
        try:
            self._lift(body)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            return f"its data cannot be lifted ({type(error).__name__}: {error})"
        except SchemaError as error:
            if self.unknown is None:
                raise
            self.unknown(error)
            return f"{NOT_KNOWN} {body['type']!r:.80}; {TO_DO}"
        return None

    def _lift(self, body: dict[str, Any]) -> None:
        type_, found = body["type"], body["schema_version"]
        place = f"{body['stream']} version {body['version']}"
        known = self._known(type_, found, place)
        for step in range(found, known):
            upcaster = self.upcasters.get((type_, step))
            if upcaster is None:
                raise MissingUpcaster(type_, step, known, place)
            body["data"] = upcaster(body["data"])
        body["schema_version"] = known

    def _known(self, type_: str, found: int, place: str) -> int:
        known = self.versions.get(type_)
        if known is None:
            raise UnknownStoredType(type_, found, 0, place)
        if found > known:
            raise NewerEventSchema(type_, found, known, place)
        return known

    def check_new(self, event: NewEvent) -> None:
        """Refuse to write what could not be read again. Raises a SchemaError."""
        if self.versions.get(event.type) == event.schema_version:
            return
        place = f"new event {event.event_id}"
        known = self._known(event.type, event.schema_version, place)
        raise OlderEventSchema(event.type, event.schema_version, known, place)


ZERO = "0" * 64


class Link(NamedTuple):
    """A place in a chain: a version and its hash."""

    version: int
    hash: str


START = Link(0, ZERO)


#: An event ready to be stored: its row, but for the position. That is its stream, version, event
#: id, type, recorded at, hash and text; a plain tuple, as one is made for each event of a batch.
Sealed = tuple[str, int, str, str, str, str, str]


#: What an append adds to each of its events: stream, command id, and the `Instant` of the append.
Stamp = tuple[str, str, str, str]


def seal(events: Sequence[NewEvent], after: Link, stamp: Stamp) -> tuple[list[Sealed], Link]:
    """The events as links of the chain that ends at `after`, and its end then.

    Raises InvalidData.
    """
    sealed = []
    version, hash_ = after
    for event in events:
        version += 1
        link = linked(event, version, hash_, stamp)
        hash_ = link[5]
        sealed.append(link)
    return sealed, Link(version, hash_)


def linked(event: NewEvent, version: int, previous: str, stamp: Stamp) -> Sealed:
    """The event as the link of this version, after one of that hash. Raises InvalidData."""
    stream, command_id, recorded_at, utc_offset = stamp
    event_id, type_, schema_version, data, actor, session, causation, correlation, at = event
    envelope = {
        "actor": {"kind": actor[0], "name": actor[1]},
        "causation_id": causation,
        "command_id": command_id,
        "correlation_id": correlation,
        "data": data,
        "event_id": event_id,
        "occurred_at": at,
        "prev_hash": previous,
        "recorded_at": recorded_at,
        "schema_version": schema_version,
        "session": session,
        "stream": stream,
        "type": type_,
        "utc_offset": utc_offset,
        "version": version,
    }
    text = encoded(envelope, type_)
    require_finite(data, type_)
    hash_ = digest(text)
    return stream, version, event_id, type_, recorded_at, hash_, text.decode()


Range = tuple[int, int]

#: The root of a tree without a leaf.
EMPTY = sha256().digest()


def leaf_hash(leaf: bytes) -> bytes:
    """The hash of a leaf."""
    return sha256(b"\x00" + leaf).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of the node above two others."""
    return sha256(b"\x01" + left + right).digest()


class Frontier:
    """A tree as far as it has grown: the roots of its whole subtrees, the widest first.

    At most one for each bit of its size, so it is small enough to be kept, and grows on from there.
    """

    __slots__ = ("peaks", "size")

    def __init__(self, size: int = 0, peaks: Iterable[bytes] = ()) -> None:
        self.size = size
        self.peaks = list(peaks)
        if len(self.peaks) != size.bit_count():
            raise ValueError(f"expected {size.bit_count()} peaks for {size} leaves")

    def add(self, leaf: bytes) -> None:
        """Take one more leaf, given as its hash."""
        size, peaks = self.size, self.peaks
        while size & 1:
            leaf = sha256(b"\x01" + peaks.pop() + leaf).digest()
            size >>= 1
        peaks.append(leaf)
        self.size += 1

    def root(self) -> bytes:
        """The root of the tree as it is now."""
        return _folded(self.peaks) if self.peaks else EMPTY

    def added(self, leaf: bytes) -> Iterator[tuple[Range, bytes]]:
        """Take one more leaf; yield each whole subtree that ends with it, and its root."""
        self.size += 1
        width, end, peaks = 1, self.size, self.peaks
        yield (end - 1, end), leaf
        while end % (2 * width) == 0:
            leaf = node_hash(peaks.pop(), leaf)
            width *= 2
            yield (end - width, end), leaf
        peaks.append(leaf)

    def roots_to_the_end(self) -> Iterator[tuple[Range, bytes]]:
        """Yield each range that begins with one of the peaks and ends with the tree."""
        first = self.size
        for number in range(len(self.peaks) - 1, -1, -1):
            first -= first & -first
            yield (first, self.size), _folded(self.peaks[number:])


def _folded(peaks: Sequence[bytes]) -> bytes:
    root = peaks[-1]
    for peak in reversed(peaks[:-1]):
        root = node_hash(peak, root)
    return root


def nodes(leaves: Iterable[bytes], wanted: Iterable[Range]) -> dict[Range, bytes]:
    """The roots of the wanted ranges, from the hashes of all leaves in order.

    A range that is no node of the tree is not in the answer.
    """
    asked, found, tree = set(wanted), dict[Range, bytes](), Frontier()
    for leaf in leaves:
        found.update((place, root) for place, root in tree.added(leaf) if place in asked)
    found.update((place, root) for place, root in tree.roots_to_the_end() if place in asked)
    return found


def inclusion_ranges(index: int, size: int) -> list[Range]:
    """The nodes that prove leaf `index` of a tree of `size` leaves, the leaf's neighbour first."""
    first, end, path = 0, size, list[Range]()
    while end - first > 1:
        middle = first + _below(end - first)
        if index < middle:
            path.append((middle, end))
            end = middle
        else:
            path.append((first, middle))
            first = middle
    return path[::-1]


def consistency_ranges(old: int, size: int) -> list[Range]:
    """The nodes that prove that a tree of `size` leaves begins with one of `old` of them.

    `old` is from 1 to `size`.
    """
    first, end, path, is_whole = 0, size, list[Range](), True
    while old != end:
        middle = first + _below(end - first)
        if old <= middle:
            path.append((middle, end))
            end = middle
        else:
            path.append((first, middle))
            first, is_whole = middle, False
    return ([] if is_whole else [(first, end)]) + path[::-1]


def _below(count: int) -> int:
    """The largest power of two that is smaller than `count`."""
    return 1 << (count - 1).bit_length() - 1


def is_included(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Whether the proof leads from the leaf's hash, at its index, to the root."""
    if not 0 <= index < size or len(proof) != len(inclusion_ranges(index, size)):
        return False
    last = size - 1
    for beside in proof:
        if index & 1 or index == last:
            leaf = node_hash(beside, leaf)
            while not index & 1 and index:
                index, last = index >> 1, last >> 1
        else:
            leaf = node_hash(leaf, beside)
        index, last = index >> 1, last >> 1
    return leaf == root


def is_consistent(
    old: int, old_root: bytes, size: int, root: bytes, proof: Sequence[bytes]
) -> bool:
    """Whether the proof shows that the tree of `size` leaves begins with the tree of `old`."""
    if old == 0:
        return not proof and old_root == EMPTY
    if old >= size:
        return old == size and not proof and old_root == root
    path = list(proof) if old & (old - 1) else [old_root, *proof]
    if len(path) != len(consistency_ranges(old, size)) + (0 if old & (old - 1) else 1):
        return False
    at, last = old - 1, size - 1
    while at & 1:
        at, last = at >> 1, last >> 1
    before = now = path[0]
    for beside in path[1:]:
        if at & 1 or at == last:
            before, now = node_hash(beside, before), node_hash(beside, now)
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            now = node_hash(now, beside)
        at, last = at >> 1, last >> 1
    return before == old_root and now == root
