"""What one log takes in from another, as rows of the tables."""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any

import orjson

from eventstore.chain import canonical
from eventstore.errors import DamagedEvent, TransferConflict
from eventstore.sql import Statements
from eventstore.store import Cargo, Raw, Refusal
from eventstore.verification import StoredRow

Fetch = Callable[[str, tuple[Any, ...]], list[Any]]

_CHUNK = 1000
#: The kinds of value in the columns of a claim.
CLAIM = (str, str, str, int, int)


def placed(events: Iterable[Raw], last: int) -> list[StoredRow]:
    """The rows of events that come after position `last`. Raises DamagedEvent."""
    return [_row(raw, position) for position, raw in enumerate(events, last + 1)]


def _row(raw: Raw, position: int) -> StoredRow:
    try:
        body = orjson.loads(raw.text)
        place = (position, body["stream"], body["version"], body["event_id"])
        return StoredRow(*place, body["type"], body["recorded_at"], raw.hash, raw.text)
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedEvent(raw.position, str(error)) from error


def unpacked(cargo: Cargo, sql: Statements, last: int) -> Iterator[tuple[str, list[Any]]]:
    """The statements that record the cargo in a log that ends at position `last`."""
    yield sql.insert_event, placed(cargo.events, last)
    yield sql.insert_command, list(cargo.commands)
    yield sql.insert_refusal, [_refusal(refusal) for refusal in cargo.refusals]
    yield sql.delete_fold, [(fold.stream, fold.reducer) for fold in cargo.folds]
    yield sql.insert_fold, list(cargo.folds)


def _refusal(refusal: Refusal) -> tuple[Any, ...]:
    return (*refusal[:-1], canonical(refusal.data, "refusal").decode())


def all_raw(fetch: Fetch, sql: Statements) -> Iterator[Raw]:
    """The stored events of all streams in order of position."""
    after = 0
    while rows := fetch(sql.read_all, (after, _CHUNK)):
        for position, *_, hash_, text in rows:
            yield Raw(position, text, hash_)
        after = rows[-1][0]


def all_refusals(fetch: Fetch, sql: Statements, stream: str | None) -> Iterator[Refusal]:
    """Kept refusals, of all streams or of one, in the order they were recorded.

    A row that cannot be one, which somebody wrote past us, does not count.
    """
    after = 0
    while rows := fetch(sql.refusals, (after, _CHUNK)):
        found = (refused(row[1:]) for row in rows)
        kept = (one for one in found if isinstance(one, Refusal))
        yield from (one for one in kept if stream in (None, one.stream))
        after = rows[-1][0]


def refused(row: tuple[Any, ...]) -> Refusal | str:
    """What the columns of a row say, or why they cannot be those of a refusal."""
    *texts, data = row
    if not all(isinstance(text, str) for text in row):
        return "expected texts, found another kind of value"
    try:
        datetime.fromisoformat(texts[0])
        "".join(row).encode()
    except UnicodeEncodeError:
        return "expected texts, found bytes that are not text"
    except ValueError:
        return f"expected a time, found {texts[0]!r:.80}"
    try:
        said = orjson.loads(data)
    except ValueError:
        said = None
    if not isinstance(said, dict):
        return f"expected an object of JSON as its data, found {data!r:.80}"
    at, stream, actor, command, code, message = texts
    return Refusal(at, stream, actor, command, code, message, said)


def in_the_way(cargo: Cargo, error: Exception) -> TransferConflict:
    """What to say where the engine has something of the cargo already."""
    reason = str(error).strip().rpartition("\n")[2]
    return TransferConflict(f"{len(cargo.events)} events, {len(cargo.commands)} commands", reason)
