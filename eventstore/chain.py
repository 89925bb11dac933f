"""Serialize events to canonical JSON and link them into a chain of hashes."""

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
    """Return the value as canonical JSON: sorted keys, no spaces, UTF-8.

    Raises InvalidData with the name `where` if JSON cannot express the value.
    """
    text = encode_json(value, where)
    # The encoder writes NaN and infinity as null. Text without null therefore needs no further
    # check for them.
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
    """Raise InvalidData if the value contains a number that JSON cannot express.

    NaN and infinity are such numbers. The error names `where` as their place.
    """
    if isinstance(value, dict):
        value = value.values()
    elif isinstance(value, float) and not math.isfinite(value):
        raise InvalidData(where, "a number that is not finite")
    elif not isinstance(value, _LISTS):
        return
    # Most values are flat and contain only strings, integers and null. Checking their types is
    # faster than a recursive check.
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

    `versions` gives the current schema version of each type. `upcasters` has a function for each
    pair of type and schema version; it converts an event's `data` to the next version. `misfit`
    returns the reason why data is invalid for its type, or None if the data is valid. `unknown` is
    called with the error for each unknown event, and the event is then ignored. Without `unknown`,
    an unknown event raises an error.
    """

    versions: Mapping[str, int]
    upcasters: Mapping[tuple[str, int], Upcaster] = field(default_factory=dict)
    misfit: Misfit = _accept_all
    unknown: Unknown | None = None

    def decode(self, position: int, hash_: str, text: str | bytes) -> RecordedEvent:
        """Parse the stored text of an event, convert its data to the current schema, and return it.

        The text is trusted: only JSON, type and schema version are checked. Raises SchemaError or
        DamagedEvent.
        """
        try:
            body: dict[str, Any] = orjson.loads(text)
            if self.versions.get(body["type"]) != body["schema_version"]:
                self._upcast(body)
        except (ValueError, KeyError, TypeError) as error:
            raise DamagedEvent(position, str(error)) from error
        return RecordedEvent(position, hash_, body)

    def event(self, position: int, hash_: str, body: dict[str, Any]) -> RecordedEvent:
        """Return the recorded event for a parsed envelope, in the current schema version.

        If the envelope is not a valid event, return an ignored event that replaces it. Raises
        SchemaError or DamagedEvent.
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
        """Convert the event's data to the current schema version.

        Return the reason if the conversion fails, otherwise None.
        """
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
        """Raise a SchemaError if this program could not read the new event after recording it."""
        if self.versions.get(event.type) == event.schema_version:
            return
        place = f"new event {event.event_id}"
        known = self._known(event.type, event.schema_version, place)
        raise OlderEventSchema(event.type, event.schema_version, known, place)


ZERO = "0" * 64


class Link(NamedTuple):
    """The version of an event in its stream, together with the event's hash."""

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
    """Hash the events as a continuation of the chain that ends at `after`.

    Return the rows to store, and the last link of the extended chain. Raises InvalidData if JSON
    cannot represent an event.
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
    """Return the row to store for the event, as number `version` of its stream.

    The hash of the row also covers `previous`, the hash of the previous event. Raises InvalidData
    if JSON cannot represent the event.
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

#: Root hash of a Merkle tree without leaves.
EMPTY = sha256().digest()


def leaf_hash(leaf: bytes) -> bytes:
    """Return the hash of a leaf of a Merkle tree."""
    return sha256(b"\x00" + leaf).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of the Merkle tree node above the nodes with the given two hashes."""
    return sha256(b"\x01" + left + right).digest()


class Frontier:
    """A growing Merkle tree, stored as the roots of its complete subtrees, the widest first.

    The number of stored roots is the number of 1 bits in the tree's size, which makes a frontier
    small enough to be saved after every event.
    """

    __slots__ = ("peaks", "size")

    def __init__(self, size: int = 0, peaks: Iterable[bytes] = ()) -> None:
        self.size = size
        self.peaks = list(peaks)
        if len(self.peaks) != size.bit_count():
            raise ValueError(f"expected {size.bit_count()} peaks for {size} leaves")

    def add(self, leaf: bytes) -> None:
        """Append a leaf, given as its hash, to the tree."""
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
        """Append a leaf to the tree, and yield the range and root of each newly complete subtree.

        The yielded subtrees all end with the new leaf, the smallest first.
        """
        self.size += 1
        width, end, peaks = 1, self.size, self.peaks
        yield (end - 1, end), leaf
        while end % (2 * width) == 0:
            leaf = node_hash(peaks.pop(), leaf)
            width *= 2
            yield (end - width, end), leaf
        peaks.append(leaf)

    def roots_to_the_end(self) -> Iterator[tuple[Range, bytes]]:
        """Yield the ranges that start with a complete subtree and end with the last leaf.

        Each range is yielded with its root hash.
        """
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
    """Compute the root hashes of the `wanted` ranges from the hashes of all leaves in order.

    Ranges that are not nodes of the Merkle tree are missing in the returned dictionary.
    """
    asked, found, tree = set(wanted), dict[Range, bytes](), Frontier()
    for leaf in leaves:
        found.update((place, root) for place, root in tree.added(leaf) if place in asked)
    found.update((place, root) for place, root in tree.roots_to_the_end() if place in asked)
    return found


def inclusion_ranges(index: int, size: int) -> list[Range]:
    """Return the nodes that prove that a Merkle tree of `size` leaves contains leaf `index`.

    The nodes are in order from the leaf to the root.
    """
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
    """Return the nodes that prove that a larger Merkle tree continues a smaller one.

    The smaller tree has `old` leaves (1 to `size`), the larger one has `size` leaves. The proof
    shows that the first `old` leaves are the same in both.
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
    """Return whether the proof connects a leaf to the root hash of a Merkle tree.

    `leaf` is the hash of the leaf, `index` its place among the `size` leaves of the tree.
    """
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
    """Return whether the proof shows that a Merkle tree continues an older one.

    The older tree has `old` leaves and the root hash `old_root`. The newer tree has `size` leaves
    and the root hash `root`.
    """
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
