"""The stored and hashed text of an event, and the chain of hashes."""

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
from eventstore.event import NewEvent, RecordedEvent, find_envelope_fault, set_aside

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]
Misfit = Callable[[str, dict[str, Any]], str | None]
Unknown = Callable[[SchemaError], None]

_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS


_SHA256 = sha256()
_LISTS = (list, tuple)
_HARMLESS = frozenset({str, int, bool, type(None)})


def canonical_json(value: Any, where: str = "value") -> bytes:
    """Return canonical JSON: sorted keys, no spaces, UTF-8. Raises InvalidData naming `where`."""
    text = encode_json(value, where)
    # The encoder writes NaN and infinity as null, so only a null can hide one.
    if b"null" in text:
        require_finite(value, where)
    return text


def encode_json(value: Any, where: str) -> bytes:
    """Return canonical JSON like `canonical_json`, without checking that numbers are finite."""
    try:
        return orjson.dumps(value, option=_OPTIONS)
    except TypeError as error:
        raise InvalidData(where, str(error)) from error


def require_finite(value: Any, where: str) -> None:
    """Raise InvalidData naming `where` if the value contains a number that JSON cannot express."""
    if isinstance(value, dict):
        value = value.values()
    elif isinstance(value, float) and not math.isfinite(value):
        raise InvalidData(where, "a number that is not finite")
    elif not isinstance(value, _LISTS):
        return
    # Most values are flat and contain only strings and null, so checking their types is enough.
    if not _HARMLESS.issuperset(map(type, value)):
        for part in value:
            require_finite(part, where)


def sha256_hex(text: bytes) -> str:
    """Return the SHA-256 digest as 64 hexadecimal digits."""
    # Copying a hash object is faster than looking up the algorithm.
    found = _SHA256.copy()
    found.update(text)
    return found.hexdigest()


def _accept_all(type_: str, data: dict[str, Any]) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Schema:
    """The event types of a program.

    `versions` gives the current schema version of each type; `upcasters` convert `data` of (type,
    version) to version + 1; `misfit` returns why data does not fit its type, or None. `unknown` is
    called with each unknown event, which is then set aside; without `unknown`, such an event
    raises an error.
    """

    versions: Mapping[str, int]
    upcasters: Mapping[tuple[str, int], Upcaster] = field(default_factory=dict)
    misfit: Misfit = _accept_all
    unknown: Unknown | None = None

    def decode(self, position: int, hash_: str, text: str | bytes) -> RecordedEvent:
        """Return the recorded event of a trusted text, converted to the current schema version.

        Raises SchemaError or DamagedEvent.
        """
        try:
            body: dict[str, Any] = orjson.loads(text)
            if self.versions.get(body["type"]) != body["schema_version"]:
                self._upcast(body)
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedEvent(position, str(error)) from error
        return RecordedEvent(position, hash_, body)

    def event(self, position: int, hash_: str, body: dict[str, Any]) -> RecordedEvent:
        """Return the recorded event of a stored envelope, in the current schema version.

        An envelope that is not a valid event is replaced by an ignored event. Raises SchemaError or
        DamagedEvent.
        """
        try:
            why = (
                find_envelope_fault(body)
                or self._try_upcast(body)
                or self.misfit(body["type"], body["data"])
            )
            return RecordedEvent(position, hash_, body if why is None else set_aside(body, why))
        except (KeyError, TypeError, AttributeError) as error:
            raise DamagedEvent(position, str(error)) from error

    def _try_upcast(self, body: dict[str, Any]) -> str | None:
        """Convert the data to the current schema, and return the reason if the conversion fails."""
        if self.versions.get(body["type"]) == body["schema_version"]:
            return None
        try:
            self._upcast(body)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            return (
                f"the data cannot be converted to the current schema ({type(error).__name__}: "
                f"{error})"
            )
        except SchemaError as error:
            if self.unknown is None:
                raise
            self.unknown(error)
            return f"{NOT_KNOWN} {body['type']!r:.80}; {TO_DO}"
        return None

    def _upcast(self, body: dict[str, Any]) -> None:
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
        """Raise a SchemaError if the event could not be read again."""
        if self.versions.get(event.type) == event.schema_version:
            return
        place = f"new event {event.event_id}"
        known = self._known(event.type, event.schema_version, place)
        raise OlderEventSchema(event.type, event.schema_version, known, place)


ZERO = "0" * 64


class Link(NamedTuple):
    """A position in a chain: a version and its hash."""

    version: int
    hash: str


START = Link(0, ZERO)


#: Row of an event that is ready to be stored, without its position.
#: The fields are stream, version, event id, type, recorded at, hash and text.
#: A plain tuple is used, because each event of a batch needs one.
Sealed = tuple[str, int, str, str, str, str, str]


#: Values that an append adds to each event: stream, command id, and the `Instant` of the append.
Stamp = tuple[str, str, str, str]


def seal_events(events: Sequence[NewEvent], after: Link, stamp: Stamp) -> tuple[list[Sealed], Link]:
    """Return the events as links of the chain that ends at `after`, and the new end of the chain.

    Raises InvalidData.
    """
    sealed = []
    version, hash_ = after
    for event in events:
        version += 1
        link = link_event(event, version, hash_, stamp)
        hash_ = link[5]
        sealed.append(link)
    return sealed, Link(version, hash_)


def link_event(event: NewEvent, version: int, previous: str, stamp: Stamp) -> Sealed:
    """Return the event as link `version`, after the link with the hash `previous`.

    Raises InvalidData.
    """
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
    text = encode_json(envelope, type_)
    require_finite(data, type_)
    hash_ = sha256_hex(text)
    return stream, version, event_id, type_, recorded_at, hash_, text.decode()


Range = tuple[int, int]

#: Root of an empty tree.
EMPTY = sha256().digest()


def leaf_hash(leaf: bytes) -> bytes:
    """Return the hash of a leaf."""
    return sha256(b"\x00" + leaf).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of the node above two other nodes."""
    return sha256(b"\x01" + left + right).digest()


class Frontier:
    """A growing tree: the roots of its complete subtrees, the widest first.

    A frontier has at most one root for each bit of its size, so it is small enough to be stored.
    """

    __slots__ = ("peaks", "size")

    def __init__(self, size: int = 0, peaks: Iterable[bytes] = ()) -> None:
        self.size = size
        self.peaks = list(peaks)
        if len(self.peaks) != size.bit_count():
            raise ValueError(f"expected {size.bit_count()} peaks for {size} leaves")

    def add(self, leaf: bytes) -> None:
        """Add a leaf, given as its hash."""
        size, peaks = self.size, self.peaks
        while size & 1:
            leaf = sha256(b"\x01" + peaks.pop() + leaf).digest()
            size >>= 1
        peaks.append(leaf)
        self.size += 1

    def root(self) -> bytes:
        """Return the current root of the tree."""
        return _fold_peaks(self.peaks) if self.peaks else EMPTY

    def added(self, leaf: bytes) -> Iterator[tuple[Range, bytes]]:
        """Add a leaf, and yield each complete subtree that ends with the leaf, and its root."""
        self.size += 1
        width, end, peaks = 1, self.size, self.peaks
        yield (end - 1, end), leaf
        while end % (2 * width) == 0:
            leaf = node_hash(peaks.pop(), leaf)
            width *= 2
            yield (end - width, end), leaf
        peaks.append(leaf)

    def roots_to_the_end(self) -> Iterator[tuple[Range, bytes]]:
        """Yield each range from the start of a peak to the end of the tree, with its root."""
        first = self.size
        for number in range(len(self.peaks) - 1, -1, -1):
            first -= first & -first
            yield (first, self.size), _fold_peaks(self.peaks[number:])


def _fold_peaks(peaks: Sequence[bytes]) -> bytes:
    root = peaks[-1]
    for peak in reversed(peaks[:-1]):
        root = node_hash(peak, root)
    return root


def find_nodes(leaves: Iterable[bytes], wanted: Iterable[Range]) -> dict[Range, bytes]:
    """Return the roots of the wanted ranges, from the hashes of all leaves in order.

    The result omits ranges that are not nodes of the tree.
    """
    asked, found, tree = set(wanted), dict[Range, bytes](), Frontier()
    for leaf in leaves:
        found.update((place, root) for place, root in tree.added(leaf) if place in asked)
    found.update((place, root) for place, root in tree.roots_to_the_end() if place in asked)
    return found


def inclusion_ranges(index: int, size: int) -> list[Range]:
    """Return the nodes that prove leaf `index` of a tree of `size` leaves, from leaf to root."""
    first, end, path = 0, size, list[Range]()
    while end - first > 1:
        middle = first + _largest_power_below(end - first)
        if index < middle:
            path.append((middle, end))
            end = middle
        else:
            path.append((first, middle))
            first = middle
    return path[::-1]


def consistency_ranges(old: int, size: int) -> list[Range]:
    """Return the nodes that prove that a tree of `size` leaves starts with a tree of `old` leaves.

    `old` is from 1 to `size`.
    """
    first, end, path, is_whole = 0, size, list[Range](), True
    while old != end:
        middle = first + _largest_power_below(end - first)
        if old <= middle:
            path.append((middle, end))
            end = middle
        else:
            path.append((first, middle))
            first, is_whole = middle, False
    return ([] if is_whole else [(first, end)]) + path[::-1]


def _largest_power_below(count: int) -> int:
    """Return the largest power of two that is smaller than `count`."""
    return 1 << (count - 1).bit_length() - 1


def is_included(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Return whether the proof leads from the leaf's hash, at its index, to the root."""
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
    """Return whether the proof shows that the tree of `size` leaves starts with the old tree."""
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
