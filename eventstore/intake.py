"""What one log takes in from another, as rows of the tables."""

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from eventstore.chain import canonical
from eventstore.errors import DamagedEvent, TransferConflict
from eventstore.sql import Statements
from eventstore.store import Cargo, Raw, Refusal
from eventstore.verification import StoredRow


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


def in_the_way(cargo: Cargo, error: Exception) -> TransferConflict:
    """What to say where the engine has something of the cargo already."""
    reason = str(error).strip().rpartition("\n")[2]
    return TransferConflict(f"{len(cargo.events)} events, {len(cargo.commands)} commands", reason)
