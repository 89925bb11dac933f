"""Convert data imported from another event log into database rows."""

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from eventstore.chain import canonical_json
from eventstore.errors import DamagedEvent, TransferConflict
from eventstore.sql import Statements
from eventstore.store import ImportBatch, RawEvent, Refusal
from eventstore.verification import StoredRow


def build_imported_rows(events: Iterable[RawEvent], last: int) -> list[StoredRow]:
    """Return the database rows for events that are imported after position `last`.

    Raises DamagedEvent if the text of an event is not valid.
    """
    return [_build_row(raw, position) for position, raw in enumerate(events, last + 1)]


def _build_row(raw: RawEvent, position: int) -> StoredRow:
    try:
        body = orjson.loads(raw.text)
        place = (position, body["stream"], body["version"], body["event_id"])
        return StoredRow(*place, body["type"], body["recorded_at"], raw.hash, raw.text)
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedEvent(raw.position, str(error)) from error


def build_import_statements(
    cargo: ImportBatch, sql: Statements, last: int
) -> Iterator[tuple[str, list[Any]]]:
    """Yield the SQL statements that append an import batch, each with its parameters.

    `last` is the position of the last event that the log already contains.
    """
    yield sql.insert_event, build_imported_rows(cargo.events, last)
    yield sql.insert_command, list(cargo.commands)
    yield sql.insert_refusal, [_build_refusal_row(refusal) for refusal in cargo.refusals]
    yield sql.delete_fold, [(fold.stream, fold.reducer) for fold in cargo.folds]
    yield sql.insert_fold, list(cargo.folds)


def _build_refusal_row(refusal: Refusal) -> tuple[Any, ...]:
    return (*refusal[:-1], canonical_json(refusal.data, "refusal").decode())


def build_transfer_conflict(cargo: ImportBatch, error: Exception) -> TransferConflict:
    """Return the error for an import batch whose data the log already contains in part."""
    reason = str(error).strip().rpartition("\n")[2]
    return TransferConflict(f"{len(cargo.events)} events, {len(cargo.commands)} commands", reason)
