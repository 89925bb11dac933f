"""Everything the event store can refuse or fail with.

EventStoreError
├── WrongExpectedVersion     the stream is not where the writer thought
├── CommandConflict          a command id is used again with other content
├── EventIdReused            an event id is already in the log
├── TransferConflict         what another log holds cannot be taken in
├── InvalidData              not JSON that reads back as it was written
├── SchemaError              the code does not know this event
│   ├── UnknownStoredType
│   ├── NewerEventSchema
│   ├── OlderEventSchema     written, not read: only the current version is appended
│   └── MissingUpcaster
├── DatabaseError            the database as a whole
│   ├── DatabaseMissing
│   ├── NotOurs
│   ├── NewerDatabase
│   ├── OlderDatabase
│   ├── StoreDamaged
│   ├── ForeignRule          a trigger or rule that wfctl did not make
│   └── StoreUnreachable     the server does not answer, or does not let us in
├── DamagedEvent             a stored event is no envelope
├── UnsoundLog               a row is not what was recorded in its place
├── StoreBusy                others kept the log to themselves for too long
├── StoreUnwritable          read-only, full, or no permission
├── LocksUnreliable          two writers could hold the lock at once
├── DriverMissing            the database's driver is not installed
└── StoreClosed              used after close, or written through a reader
"""

from pathlib import Path
from typing import Any, ClassVar

NOT_KNOWN = "this wfctl does not know an event of type"
TO_DO = "a newer one wrote it, or somebody by hand: update wfctl, or `wfctl db salvage`"
_NO_RULE = "Nothing is written behind it, as no rule can be checked there."


class EventStoreError(Exception):
    """Base of all: `code` is stable, `message` is for people, `data` holds the values."""

    code: ClassVar[str] = "event_store"

    def __init__(self, message: str, **data: Any) -> None:
        super().__init__(message)
        self.message = message
        self.data = data


class WrongExpectedVersion(EventStoreError):
    """The stream moved on, or is not there, or is there already."""

    code = "wrong_expected_version"

    def __init__(self, stream: str, expected: int | str, found: int) -> None:
        super().__init__(
            f"{stream}: expected {_expectation(expected)}, found version {found}; "
            "read the stream again and decide anew",
            stream=stream,
            expected=expected,
            found=found,
        )
        self.stream = stream
        self.expected = expected
        self.found = found


def _expectation(expected: int | str) -> str:
    return f"version {expected}" if isinstance(expected, int) else str(expected)


class CommandConflict(EventStoreError):
    """The command id was used before, for another content or another stream."""

    code = "command_conflict"

    def __init__(self, command_id: str, stream: str) -> None:
        super().__init__(
            f"command id {command_id!r}: expected the content it was first used with "
            f"(on {stream}), found another; use a fresh id for a new command",
            command_id=command_id,
            stream=stream,
        )
        self.command_id = command_id
        self.stream = stream


class EventIdReused(EventStoreError):
    """One of the event ids is in the log already."""

    code = "event_id_reused"

    def __init__(self, stream: str, event_ids: list[str]) -> None:
        super().__init__(
            f"{stream}: expected event ids that are new, found one of "
            f"{', '.join(event_ids)} in the log; make a new id for each event",
            stream=stream,
            event_ids=event_ids,
        )
        self.stream = stream
        self.event_ids = event_ids


class TransferConflict(EventStoreError):
    """Something of another log is here already, or is of another history."""

    code = "transfer_conflict"

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(
            f"{what}: expected nothing of it in the target, found: {reason}; nothing there was "
            "changed; name an empty database, or move one stream with --stream",
            what=what,
            reason=reason,
        )
        self.what = what
        self.reason = reason


class InvalidData(EventStoreError):
    """A value that JSON cannot carry there and back."""

    code = "invalid_data"

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(
            f"{where}: expected JSON with finite numbers of at most 64 bits and text keys, "
            f"found: {reason}; correct the value",
            where=where,
            reason=reason,
        )
        self.where = where
        self.reason = reason


class SchemaError(EventStoreError):
    """An event this program cannot read or may not write."""

    code = "event_schema"

    def __init__(self, message: str, type_: str, found: int, known: int, place: str) -> None:
        super().__init__(message, type=type_, found=found, known=known, place=place)
        self.type = type_
        self.found = found
        self.known = known
        self.place = place


class UnknownStoredType(SchemaError):
    """The type is not one of the program's."""

    code = "unknown_event_type"

    def __init__(self, type_: str, found: int, place: str) -> None:
        super().__init__(
            f"{place}: {NOT_KNOWN} {type_!r:.80}; {TO_DO}. {_NO_RULE}",
            type_,
            found,
            0,
            place,
        )


class NewerEventSchema(SchemaError):
    """The event was written by a newer program."""

    code = "newer_event_schema"

    def __init__(self, type_: str, found: int, known: int, place: str) -> None:
        super().__init__(
            f"{place}: {NOT_KNOWN} {type_!r:.80} with the schema version {found} (expected {known} "
            f"or older); {TO_DO}. {_NO_RULE}",
            type_,
            found,
            known,
            place,
        )


class OlderEventSchema(SchemaError):
    """An event to be appended has an old schema version."""

    code = "older_event_schema"

    def __init__(self, type_: str, found: int, known: int, place: str) -> None:
        super().__init__(
            f"{place}: expected {type_} of schema version {known} to be written, found {found}; "
            "lift the event before appending it",
            type_,
            found,
            known,
            place,
        )


class MissingUpcaster(SchemaError):
    """There is a gap on the way from a stored schema version to the current one."""

    code = "missing_upcaster"

    def __init__(self, type_: str, found: int, known: int, place: str) -> None:
        super().__init__(
            f"{place}: expected an upcaster of {type_} from schema version {found} on the way "
            f"to {known}, found none; this program is broken, use another version",
            type_,
            found,
            known,
            place,
        )


class DatabaseError(EventStoreError):
    """The database as a whole cannot be used as it is."""

    code = "database"

    def __init__(self, message: str, path: Path | str, **data: Any) -> None:
        super().__init__(message, path=str(path), **data)
        self.path = str(path)


class DatabaseMissing(DatabaseError):
    """There is no database at the path."""

    code = "database_missing"

    def __init__(self, path: Path | str) -> None:
        super().__init__(
            f"{path}: expected an event database, found nothing; `wfctl init PLAN` makes one. "
            "Where one was here, it was lost: bring a backup back (`wfctl db restore FILE`), or "
            "move .wfctl aside and call `wfctl import .`, which takes up what the workflow's files "
            "show",
            path,
        )


class NotOurs(DatabaseError):
    """A file that is not an event database of this program."""

    code = "database_not_ours"

    def __init__(self, path: Path | str, found: str) -> None:
        super().__init__(
            f"{path}: expected an event database of wfctl, found {found}; "
            "name another database, or move this file away",
            path,
            found=found,
        )
        self.found = found


class NewerDatabase(DatabaseError):
    """The tables were made by a newer program."""

    code = "database_newer"

    def __init__(self, path: Path | str, found: str, known: str) -> None:
        super().__init__(
            f"{path}: expected database version {known} or older, found {found}; "
            "upgrade the program",
            path,
            found=found,
            known=known,
        )
        self.found = found
        self.known = known


class OlderDatabase(DatabaseError):
    """The tables were made by an older program."""

    code = "database_older"

    def __init__(self, path: Path | str, found: str, known: str) -> None:
        super().__init__(
            f"{path}: expected database version {known}, found {found}; run `wfctl db upgrade`",
            path,
            found=found,
            known=known,
        )
        self.found = found
        self.known = known


class StoreDamaged(DatabaseError):
    """The engine cannot read the file: it is malformed or the disk fails."""

    code = "store_damaged"

    def __init__(self, path: Path | str, reason: str) -> None:
        super().__init__(
            f"{path}: expected a sound database, found: {reason}; "
            "keep the file, and restore from an export or a backup",
            path,
            reason=reason,
        )
        self.reason = reason


class ForeignRule(DatabaseError):
    """Something in the database acts on each row that is put into the log, and is none of ours."""

    code = "foreign_rule"

    def __init__(self, path: Path | str, found: str) -> None:
        super().__init__(
            f"{path}: expected the triggers and tables that wfctl made, found {found}. Somebody "
            "changed the database past wfctl: what is appended might not be kept, so nothing is. "
            "`wfctl db backup FILE` writes what the log holds; move the database away, and "
            "`wfctl db restore FILE` makes a new one",
            path,
            found=found,
        )
        self.found = found


class StoreUnreachable(DatabaseError):
    """The server does not answer, or does not let us in; a connection that was lost stays so."""

    code = "store_unreachable"

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(
            f"{address}: expected the database server to answer, found: {reason}; what was "
            "acknowledged is recorded; see that the server runs and lets you in, then repeat the "
            "command",
            address,
            reason=reason,
        )
        self.reason = reason


class DamagedEvent(EventStoreError):
    """A stored text that is not the envelope of an event."""

    code = "damaged_event"

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(
            f"event at position {position}: expected the JSON of an event, found: {reason}; "
            "restore from another export or backup; `wfctl fsck` looks at the log that is in "
            "its place",
            position=position,
            reason=reason,
        )
        self.position = position
        self.reason = reason


class UnsoundLog(EventStoreError):
    """A row of the log is not what was recorded in its place; nothing of it takes effect.

    `version` is the first bad one, `kind` one of those of `verification.Finding`.
    """

    code = "log_unsound"

    def __init__(self, stream: str, version: int, kind: str, reason: str) -> None:
        super().__init__(
            f"{stream}: version {version} is not what was recorded there ({kind}: {reason}). "
            "Somebody changed the log past wfctl; nothing takes effect from that version on, and "
            "nothing is written. `wfctl fsck` lists all that is wrong, --as-is with a command "
            "that reads shows the log as it stands, and `wfctl db salvage` makes a new log of "
            "the versions before it",
            stream=stream,
            version=version,
            kind=kind,
            reason=reason,
        )
        self.stream = stream
        self.version = version
        self.kind = kind
        self.reason = reason


class StoreBusy(EventStoreError):
    """The bounded wait for other writers ended. `waited` is in seconds."""

    code = "store_busy"

    def __init__(self, waited: float) -> None:
        super().__init__(
            f"expected a turn to write within {waited:.3g} s, found the log held by others "
            "all the while; try again, or look for a process that hangs",
            waited=waited,
        )
        self.waited = waited


class StoreUnwritable(EventStoreError):
    """Nothing can be written here: read-only, full, or not permitted."""

    code = "store_unwritable"

    def __init__(self, path: Path | str, reason: str) -> None:
        super().__init__(
            f"{path}: expected to write, found: {reason}; nothing was recorded; "
            "make room or get write permission, and repeat the command",
            path=str(path),
            reason=reason,
        )
        self.path = str(path)
        self.reason = reason


class LocksUnreliable(EventStoreError):
    """The file system grants a lock twice."""

    code = "locks_unreliable"

    def __init__(self, path: Path | str, filesystem: str) -> None:
        super().__init__(
            f"{path}: expected file locks that exclude, found a file system ({filesystem}) that "
            "grants them twice; put the database on a local disk or on a database server",
            path=str(path),
            filesystem=filesystem,
        )
        self.path = str(path)
        self.filesystem = filesystem


class DriverMissing(EventStoreError):
    """The program that talks to the database's server is not installed."""

    code = "driver_missing"

    def __init__(self, driver: str, reason: str) -> None:
        super().__init__(
            f"a log on PostgreSQL: expected the driver {driver}, found: {reason}; install it with "
            "`uv tool install 'wfctl-eventstore[postgres]'` or "
            "`pip install 'wfctl-eventstore[postgres]'`",
            driver=driver,
            reason=reason,
        )
        self.driver = driver


class StoreClosed(EventStoreError):
    """The store was closed, or was opened for reading only."""

    code = "store_closed"

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"expected a store open for writing, found it {reason}; open another", reason=reason
        )
        self.reason = reason
