"""The statements that every engine of the log has, in SQL that both understand.

Parameters are positional, in the order that each comment gives before the arrow; what the rows
hold stands after it. A test holds the columns equal to those of the tables.
"""

#: The columns of an event, of a claim and of a fold.
EVENT = "position, stream, version, event_id, type, recorded_at, hash, body"
CLAIMED = "command_id, stream, digest, first_version, last_version"
FOLD = "stream, reducer, reducer_version, version, state"
#: Those of a refusal, after its number.
REFUSAL = "at, stream, actor, command, code, message, data"

_LAST_OF_STREAM = "FROM events WHERE stream = ? ORDER BY version DESC LIMIT 1"


def _inserted(table: str, columns: str) -> str:
    marks = ", ".join("?" for _ in columns.split(", "))
    return f"INSERT INTO {table} ({columns}) VALUES ({marks})"


class Statements:
    """The texts with the parameters of SQLite; each engine has its own for the last three."""

    #: stream -> version, position, hash.
    head = f"SELECT version, position, hash {_LAST_OF_STREAM}"
    #: stream -> position and hash of the log's last event, version and hash of the stream's: the
    #: latter are null where there is none, and an empty log gives no row.
    tip = f"""
SELECT last.position, last.hash, own.version, own.hash
FROM (SELECT position, hash FROM events ORDER BY position DESC LIMIT 1) AS last
LEFT OUTER JOIN (SELECT version, hash {_LAST_OF_STREAM}) AS own ON 1 = 1"""
    #: Nothing -> number of events, last position (null in an empty log).
    extent = "SELECT count(*), max(position) FROM events"
    #: Nothing -> last position, 0 in an empty log.
    last = "SELECT coalesce(max(position), 0) FROM events"
    insert_event = _inserted("events", EVENT)
    insert_command = _inserted("commands", CLAIMED)
    #: stream, after, upto, limit -> every column of events.
    read = f"""
SELECT {EVENT} FROM events WHERE stream = ? AND version > ? AND version <= ?
ORDER BY version LIMIT ?"""
    #: after, limit -> every column of events.
    read_all = f"SELECT {EVENT} FROM events WHERE position > ? ORDER BY position LIMIT ?"
    #: stream, after, limit -> every column of events.
    rows = f"""
SELECT {EVENT} FROM events WHERE stream = ? AND version > ? ORDER BY version LIMIT ?"""
    #: name -> the next name in order: one step in the index, however long the streams are.
    next_stream = "SELECT stream FROM events WHERE stream > ? ORDER BY stream LIMIT 1"
    #: stream, reducer.
    delete_fold = "DELETE FROM folds WHERE stream = ? AND reducer = ?"
    insert_fold = _inserted("folds", FOLD)
    #: stream, reducer, reducer version -> every column of folds.
    fold = f"""
SELECT {FOLD} FROM folds WHERE stream = ? AND reducer = ? AND reducer_version = ?"""
    insert_refusal = _inserted("refusals", REFUSAL)
    #: command id, limit -> every column of the commands after it, and the texts of the first and of
    #: the last event that it claims, null where there is none.
    claims = """
SELECT c.command_id, c.stream, c.digest, c.first_version, c.last_version, first.body, last.body
FROM commands AS c
LEFT OUTER JOIN events AS first ON first.stream = c.stream AND first.version = c.first_version
LEFT OUTER JOIN events AS last ON last.stream = c.stream AND last.version = c.last_version
WHERE c.command_id > ? ORDER BY c.command_id LIMIT ?"""
    #: after, limit -> number and every column of refusals.
    refusals = f"SELECT id, {REFUSAL} FROM refusals WHERE id > ? ORDER BY id LIMIT ?"
    #: command id -> stream, digest, first version, last version.
    command: str
    #: command ids, in one parameter -> command id, stream, first version, last version of each.
    spans: str
    #: command id, limit -> every column of the claims after it.
    commands: str
