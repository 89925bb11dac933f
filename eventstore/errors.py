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

from wording import Worded

NOT_KNOWN = "this wfctl does not know an event of type"
TO_DO = "a newer one wrote it, or somebody by hand: update wfctl, or `wfctl db salvage`"
_NO_RULE = "Nothing is written behind it, as no rule can be checked there."


class EventStoreError(Worded):
    """Base of all: `code` is stable, `message` is for people, `data` holds the values."""

    code = "event_store"


class WrongExpectedVersion(EventStoreError):
    """The stream moved on, or is not there, or is there already."""

    code = "wrong_expected_version"
    text = (
        "{stream}: expected {_expectation}, found version {found}; "
        "read the stream again and decide anew"
    )
    stream: str
    expected: int | str
    found: int

    @property
    def _expectation(self) -> str:
        expected = self.expected
        return f"version {expected}" if isinstance(expected, int) else str(expected)


class CommandConflict(EventStoreError):
    """The command id was used before, for another content or another stream."""

    code = "command_conflict"
    text = (
        "command id {command_id!r}: expected the content it was first used with "
        "(on {stream}), found another; use a fresh id for a new command"
    )
    command_id: str
    stream: str


class EventIdReused(EventStoreError):
    """One of the event ids is in the log already."""

    code = "event_id_reused"
    text = (
        "{stream}: expected event ids that are new, found one of "
        "{event_ids:, } in the log; make a new id for each event"
    )
    stream: str
    event_ids: list[str]


class TransferConflict(EventStoreError):
    """Something of another log is here already, or is of another history."""

    code = "transfer_conflict"
    text = (
        "{what}: expected nothing of it in the target, found: {reason}; nothing there was "
        "changed; name an empty database, or move one stream with --stream"
    )
    what: str
    reason: str


class InvalidData(EventStoreError):
    """A value that JSON cannot carry there and back."""

    code = "invalid_data"
    text = (
        "{where}: expected JSON with finite numbers of at most 64 bits and text keys, "
        "found: {reason}; correct the value"
    )
    where: str
    reason: str


class SchemaError(EventStoreError):
    """An event this program cannot read or may not write."""

    code = "event_schema"
    type: str
    found: int
    known: int
    place: str


class UnknownStoredType(SchemaError):
    """The type is not one of the program's."""

    code = "unknown_event_type"
    text = f"{{place}}: {NOT_KNOWN} {{type!r:.80}}; {TO_DO}. {_NO_RULE}"


class NewerEventSchema(SchemaError):
    """The event was written by a newer program."""

    code = "newer_event_schema"
    text = (
        f"{{place}}: {NOT_KNOWN} {{type!r:.80}} with the schema version {{found}} (expected "
        f"{{known}} or older); {TO_DO}. {_NO_RULE}"
    )


class OlderEventSchema(SchemaError):
    """An event to be appended has an old schema version."""

    code = "older_event_schema"
    text = (
        "{place}: expected {type} of schema version {known} to be written, found {found}; "
        "lift the event before appending it"
    )


class MissingUpcaster(SchemaError):
    """There is a gap on the way from a stored schema version to the current one."""

    code = "missing_upcaster"
    text = (
        "{place}: expected an upcaster of {type} from schema version {found} on the way "
        "to {known}, found none; this program is broken, use another version"
    )


class DatabaseError(EventStoreError):
    """The database as a whole cannot be used as it is."""

    code = "database"
    path: Path | str


class DatabaseMissing(DatabaseError):
    """There is no database at the path."""

    code = "database_missing"
    text = (
        "{path}: expected an event database, found nothing; `wfctl init PLAN` makes one. "
        "Where one was here, it was lost: bring a backup back (`wfctl db restore FILE`), or "
        "move .wfctl aside and call `wfctl import .`, which takes up what the workflow's files "
        "show"
    )


class NotOurs(DatabaseError):
    """A file that is not an event database of this program."""

    code = "database_not_ours"
    text = (
        "{path}: expected an event database of wfctl, found {found}; "
        "name another database, or move this file away"
    )
    found: str


class NewerDatabase(DatabaseError):
    """The tables were made by a newer program."""

    code = "database_newer"
    text = "{path}: expected database version {known} or older, found {found}; upgrade the program"
    found: str
    known: str


class OlderDatabase(DatabaseError):
    """The tables were made by an older program."""

    code = "database_older"
    text = "{path}: expected database version {known}, found {found}; run `wfctl db upgrade`"
    found: str
    known: str


class StoreDamaged(DatabaseError):
    """The engine cannot read the file: it is malformed or the disk fails."""

    code = "store_damaged"
    text = (
        "{path}: expected a sound database, found: {reason}; "
        "keep the file, and restore from an export or a backup"
    )
    reason: str


class ForeignRule(DatabaseError):
    """A trigger or rule that wfctl did not create acts on each row that is put into the log."""

    code = "foreign_rule"
    text = (
        "{path}: expected the triggers and tables that wfctl made, found {found}. Somebody "
        "changed the database past wfctl: what is appended might not be kept, so nothing is. "
        "`wfctl db backup FILE` writes what the log holds; move the database away, and "
        "`wfctl db restore FILE` makes a new one"
    )
    found: str


class StoreUnreachable(DatabaseError):
    """The server does not answer, or does not let us in; a connection that was lost stays so."""

    code = "store_unreachable"
    text = (
        "{path}: expected the database server to answer, found: {reason}; what was "
        "acknowledged is recorded; see that the server runs and lets you in, then repeat the "
        "command"
    )
    reason: str


class DamagedEvent(EventStoreError):
    """A stored text that is not the envelope of an event."""

    code = "damaged_event"
    text = (
        "event at position {position}: expected the JSON of an event, found: {reason}; "
        "restore from another export or backup; `wfctl fsck` looks at the log that is in "
        "its place"
    )
    position: int
    reason: str


class UnsoundLog(EventStoreError):
    """A row of the log is not what was recorded in its place; nothing of it takes effect.

    `version` is the first bad one, `kind` one of those of `verification.Finding`.
    """

    code = "log_unsound"
    text = (
        "{stream}: version {version} is not what was recorded there ({kind}: {reason}). "
        "Somebody changed the log past wfctl; nothing takes effect from that version on, and "
        "nothing is written. `wfctl fsck` lists all that is wrong, --as-is with a command "
        "that reads shows the log as it stands, and `wfctl db salvage` makes a new log of "
        "the versions before it"
    )
    stream: str
    version: int
    kind: str
    reason: str


class StoreBusy(EventStoreError):
    """The bounded wait for other writers ended. `waited` is in seconds."""

    code = "store_busy"
    text = (
        "expected a turn to write within {waited:.3g} s, found the log held by others "
        "all the while; try again, or look for a process that hangs"
    )
    waited: float


class StoreUnwritable(EventStoreError):
    """Nothing can be written here: read-only, full, or not permitted."""

    code = "store_unwritable"
    text = (
        "{path}: expected to write, found: {reason}; nothing was recorded; "
        "make room or get write permission, and repeat the command"
    )
    path: Path | str
    reason: str


class LocksUnreliable(EventStoreError):
    """The file system grants a lock twice."""

    code = "locks_unreliable"
    text = (
        "{path}: expected file locks that exclude, found a file system ({filesystem}) that "
        "grants them twice; put the database on a local disk or on a database server"
    )
    path: Path | str
    filesystem: str


class DriverMissing(EventStoreError):
    """The program that talks to the database's server is not installed."""

    code = "driver_missing"
    text = (
        "a log on PostgreSQL: expected the driver {driver}, found: {reason}; install it with "
        "`uv tool install 'wfctl-eventstore[postgres]'` or "
        "`pip install 'wfctl-eventstore[postgres]'`"
    )
    driver: str
    reason: str


class StoreClosed(EventStoreError):
    """The store was closed, or was opened for reading only."""

    code = "store_closed"
    text = "expected a store open for writing, found it {reason}; open another"
    reason: str
