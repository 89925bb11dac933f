"""The errors of the event store.

EventStoreError
├── WrongExpectedVersion     the stream is not at the version that the writer expects
├── CommandConflict          a command id is used again with other content
├── EventIdReused            an event id is already in the log
├── TransferConflict         the content of another log cannot be imported
├── InvalidData              JSON cannot represent the data without loss
├── SchemaError              the code does not know this event
│   ├── UnknownStoredType
│   ├── NewerEventSchema
│   ├── OlderEventSchema     an event in an old version cannot be appended
│   └── MissingUpcaster
├── DatabaseError            the whole database is unusable
│   ├── DatabaseMissing
│   ├── NotOurs
│   ├── NewerDatabase
│   ├── OlderDatabase
│   ├── StoreDamaged
│   ├── ForeignRule          the database has a trigger or rule of another program
│   └── StoreUnreachable     the server does not answer, or refuses access
├── DamagedEvent             a stored event is not a valid envelope
├── UnsoundLog               a row differs from the recorded row
├── StoreBusy                other processes keep the log locked
├── StoreUnwritable          the log is read-only, the disk is full, or permission is missing
├── LocksUnreliable          the file system would let two writers hold the lock
├── DriverMissing            the database's driver is not installed
└── StoreClosed              the store was closed, or opened for reading only
"""

from pathlib import Path

from wording import TemplatedError

NOT_KNOWN = "this wfctl does not know an event of type"
TO_DO = (
    "a newer wfctl wrote the event, or somebody added it by hand: update wfctl, or run `wfctl db "
    "salvage`"
)
_NO_RULE = "wfctl adds no events after this one, because it cannot check the rules there."


class EventStoreError(TemplatedError):
    """Base class of all errors of the event store.

    `code` is a stable identifier, `message` is the text for users, and `data` contains the values
    of the message.
    """

    code = "event_store"


class WrongExpectedVersion(EventStoreError):
    """The stream does not have the version that the writer expected."""

    code = "wrong_expected_version"
    text = (
        "{stream}: expected {_expectation}, found version {found}. Read the stream again "
        "before the next attempt"
    )
    stream: str
    expected: int | str
    found: int

    @property
    def _expectation(self) -> str:
        expected = self.expected
        return f"version {expected}" if isinstance(expected, int) else str(expected)


class CommandConflict(EventStoreError):
    """Another command, with other content, already used this command id."""

    code = "command_conflict"
    text = (
        "the command id {command_id!r} was already used (on {stream}) with other content. "
        "Use a new id for a new command"
    )
    command_id: str
    stream: str


class EventIdReused(EventStoreError):
    """The log already contains an event with this id."""

    code = "event_id_reused"
    text = (
        "{stream}: the log already contains an event with one of the ids {event_ids:, }. "
        "Create a new id for each event"
    )
    stream: str
    event_ids: list[str]


class TransferConflict(EventStoreError):
    """The target database already contains other events."""

    code = "transfer_conflict"
    text = (
        "{what} cannot be copied, because the target already contains: {reason}. Nothing in "
        "the target was changed. Name an empty database, or copy a single stream with "
        "--stream"
    )
    what: str
    reason: str


class InvalidData(EventStoreError):
    """JSON cannot represent the value."""

    code = "invalid_data"
    text = (
        "{where}: not valid JSON for the log: {reason}. Numbers must be finite and have at "
        "most 64 bits, and keys must be strings"
    )
    where: str
    reason: str


class SchemaError(EventStoreError):
    """This version of wfctl does not support the event's type or schema version."""

    code = "event_schema"
    type: str
    found: int
    known: int
    place: str


class UnknownStoredType(SchemaError):
    """The log contains an event of a type that this version of wfctl does not know."""

    code = "unknown_event_type"
    text = f"{{place}}: {NOT_KNOWN} {{type!r:.80}}; {TO_DO}. {_NO_RULE}"


class NewerEventSchema(SchemaError):
    """A newer version of wfctl wrote the event."""

    code = "newer_event_schema"
    text = (
        f"{{place}}: {NOT_KNOWN} {{type!r:.80}} with the schema version {{found}} (expected "
        f"{{known}} or older); {TO_DO}. {_NO_RULE}"
    )


class OlderEventSchema(SchemaError):
    """The new event has an outdated schema version."""

    code = "older_event_schema"
    text = (
        "{place}: {type} must have schema version {known}, found {found}. Convert the event "
        "to the current schema before it is appended"
    )


class MissingUpcaster(SchemaError):
    """wfctl cannot convert the stored schema version to the current one."""

    code = "missing_upcaster"
    text = (
        "{place}: this wfctl cannot convert {type} from schema version {found} to {known}, "
        "because a conversion is missing. Use another version of wfctl"
    )


class DatabaseError(EventStoreError):
    """wfctl cannot use the database."""

    code = "database"
    path: Path | str


class DatabaseMissing(DatabaseError):
    """No database exists at the given path."""

    code = "database_missing"
    text = (
        "{path} does not exist or contains no event database. Create a workflow with `wfctl "
        "init PLAN`. If there was a database, it was lost: restore a backup (`wfctl db "
        "restore FILE`), or move .wfctl aside and run `wfctl import .`, which imports the "
        "workflow's files"
    )


class NotOurs(DatabaseError):
    """The file is not a database of wfctl."""

    code = "database_not_ours"
    text = (
        "{path} is not an event database of wfctl: found {found}. Name another database, or "
        "move this file away"
    )
    found: str


class NewerDatabase(DatabaseError):
    """A newer version of wfctl created the database."""

    code = "database_newer"
    text = (
        "{path} was written by a newer wfctl: expected database version {known} or older, found "
        "{found}. Update wfctl"
    )
    found: str
    known: str


class OlderDatabase(DatabaseError):
    """An older version of wfctl created the database. Run `wfctl db upgrade`."""

    code = "database_older"
    text = (
        "{path} was written by an older wfctl: expected database version {known}, found {found}. "
        "Run `wfctl db upgrade`"
    )
    found: str
    known: str


class StoreDamaged(DatabaseError):
    """The database file is damaged, or the disk fails."""

    code = "store_damaged"
    text = "{path} is damaged: {reason}. Keep the file, and restore an export or a backup"
    reason: str


class ForeignRule(DatabaseError):
    """The log's tables have a trigger or rule that wfctl did not create."""

    code = "foreign_rule"
    text = (
        "{path} was changed by another program: found {found}, which wfctl did not create. "
        "wfctl writes nothing, because new events might be lost. Save the log with `wfctl db "
        "backup FILE`, move the database away, and create a new one with `wfctl db restore "
        "FILE`"
    )
    found: str


class StoreUnreachable(DatabaseError):
    """The database server does not answer or refuses the connection."""

    code = "store_unreachable"
    text = (
        "{path}: the database server does not answer or rejects the connection: {reason}. "
        "All confirmed changes are recorded. Check the server and your access, then repeat "
        "the command"
    )
    reason: str


class DamagedEvent(EventStoreError):
    """A row of the log is not a valid event."""

    code = "damaged_event"
    text = (
        "the event at position {position} is damaged: {reason}. Restore another export or "
        "backup; `wfctl fsck` checks the current log"
    )
    position: int
    reason: str


class UnsoundLog(EventStoreError):
    """Somebody changed a row of the log. wfctl ignores this row and all later rows.

    `version` is the first invalid version. `kind` is the kind of damage, with the values of
    `verification.Finding`.
    """

    code = "log_unsound"
    text = (
        "{stream}: version {version} was changed after it was recorded ({kind}: {reason}). "
        "wfctl ignores the log from that version on and writes nothing. `wfctl fsck` lists "
        "all changes, the option --as-is shows the log in its current state, and `wfctl db "
        "salvage` creates a new log from the versions before the change"
    )
    stream: str
    version: int
    kind: str
    reason: str


class StoreBusy(EventStoreError):
    """Other writers kept the log locked for longer than this process waits.

    `waited` is in seconds. `holder` names the process that held the lock, or is None if the
    database does not report it.
    """

    code = "store_busy"
    text = (
        "the log could not be written, because {_who} held it for {waited:.3g} s. Try again, "
        "or look for a process that hangs"
    )
    waited: float
    holder: str | None = None

    @property
    def _who(self) -> str:
        return self.holder or "others"


class StoreUnwritable(EventStoreError):
    """The log cannot be written: it is read-only, the disk is full, or permission is missing."""

    code = "store_unwritable"
    text = (
        "{path} cannot be written: {reason}. Nothing was recorded. Free some space or get "
        "permission to write, then repeat the command"
    )
    path: Path | str
    reason: str


class LocksUnreliable(EventStoreError):
    """The file system gives the same lock to two processes."""

    code = "locks_unreliable"
    text = (
        "{path}: locks do not work on this file system ({filesystem}), which grants the same "
        "lock twice. Put the database on a local disk or on a database server"
    )
    path: Path | str
    filesystem: str


class DriverMissing(EventStoreError):
    """The Python driver for the database server is not installed."""

    code = "driver_missing"
    text = (
        "the log is on PostgreSQL, and the driver {driver} cannot be loaded: {reason}. "
        "Install it with `uv tool install 'wfctl-eventstore[postgres]'` or `pip install "
        "'wfctl-eventstore[postgres]'`"
    )
    driver: str
    reason: str


class StoreClosed(EventStoreError):
    """The log is closed or read-only."""

    code = "store_closed"
    text = "the store cannot be written, because it is {reason}. Open another one"
    reason: str
