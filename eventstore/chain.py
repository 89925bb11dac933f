"""Serialize events to canonical JSON and link them into a chain of hashes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import orjson

from eventstore.errors import (
    InvalidData,
)
from eventstore.event import NewEvent

_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS


_SHA256 = sha256()
_LISTS = (list, tuple)
_HARMLESS = frozenset({str, int, bool, type(None)})


def canonical_json(value: Any, where: str = "value") -> bytes:
    """Return the value as canonical JSON: sorted keys, no spaces, UTF-8.

    Raises InvalidData with the name `where` if JSON cannot express the value.
    """
    text = encode_unchecked_canonical_json(value, where)
    # The encoder writes NaN and infinity as null. Text without null therefore needs no further
    # check for them.
    if b"null" in text:
        require_finite(value, where)
    return text


def encode_unchecked_canonical_json(value: Any, where: str) -> bytes:
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


def build_chained_rows(
    events: Sequence[NewEvent], after: Link, stamp: Stamp
) -> tuple[list[Sealed], Link]:
    """Hash the events as a continuation of the chain that ends at `after`.

    Return the rows to store, and the last link of the extended chain. Raises InvalidData if JSON
    cannot represent an event.
    """
    sealed = []
    version, hash_ = after
    for event in events:
        version += 1
        link = build_chained_row(event, version, hash_, stamp)
        hash_ = link[5]
        sealed.append(link)
    return sealed, Link(version, hash_)


def build_chained_row(event: NewEvent, version: int, previous: str, stamp: Stamp) -> Sealed:
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
    text = encode_unchecked_canonical_json(envelope, type_)
    require_finite(data, type_)
    hash_ = sha256_hex(text)
    return stream, version, event_id, type_, recorded_at, hash_, text.decode()
