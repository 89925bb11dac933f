"""What an append to a SQLite file says, beside the statements that all engines share.

A command of one event that bears its id is claimed by that event: its digest stands in the event's
row. All others have a row of their own among the commands, and none is claimed in both ways.
"""

import sqlite3
from collections.abc import Sequence
from typing import Any

from eventstore.errors import EventIdReused
from eventstore.statements import Statements
from eventstore.store import Claimed

#: The columns of an event: what its link in the chain holds, between its position and its claim.
ROW = (
    *("position", "stream", "version", "event_id", "type", "recorded_at", "hash", "body"),
    "command_digest",
)

_EVENT_ID = ROW.index("event_id")


def _insert(*values: str) -> str:
    return f"INSERT INTO events ({', '.join(ROW)}) VALUES ({', '.join(values)})"


_CLAIMING = _insert(*("?" for _ in ROW))

# An event without a stream is refused.
_STREAM = """
CASE WHEN ? IS (SELECT hash FROM events ORDER BY position DESC LIMIT 1)
AND NOT EXISTS (SELECT 1 FROM commands WHERE command_id = ?) THEN ? END"""
#: One event after a known head, which claims its command: a statement that is its own transaction.
#: It fails where the log does not end with the event that was seen there, as after a restore, or
#: where the command is known; what is taken, a unique index refuses. Position, hash of the log's
#: last event, command id, then the columns of the event from its stream on, and the digest.
NEXT = _insert("?", _STREAM, *("?" for _ in ROW[2:]))

_CLAIMS = """
SELECT {} FROM (
  SELECT command_id, stream, digest, first_version, last_version FROM commands
  UNION ALL
  SELECT event_id, stream, command_digest, version, version FROM events
  WHERE command_digest IS NOT NULL)
WHERE command_id {}"""
#: Command id -> stream, digest, first version, last version.
COMMAND = _CLAIMS.format("stream, digest, first_version, last_version", "= ?")
#: Command ids as a list in JSON -> command id, stream, first version, last version of each.
SPANS = _CLAIMS.format(
    "command_id, stream, first_version, last_version", "IN (SELECT value FROM json_each(?))"
)
#: Command id, limit -> every column of the commands after it.
COMMANDS = _CLAIMS.format("*", "> ? ORDER BY command_id LIMIT ?")


def record(
    cursor: sqlite3.Cursor, sql: Statements, command: Claimed, rows: Sequence[tuple[Any, ...]]
) -> None:
    """Insert the rows of a command's events, and its claim. Raises EventIdReused."""
    alone = len(rows) == 1 and rows[0][_EVENT_ID] == command.command_id
    if not alone:
        cursor.execute(sql.insert_command, command)
    try:
        if alone:
            cursor.execute(_CLAIMING, (*rows[0], command.digest))
        else:
            cursor.executemany(sql.insert_event, rows)
    except sqlite3.IntegrityError as error:
        raise EventIdReused(command.stream, [row[_EVENT_ID] for row in rows]) from error
