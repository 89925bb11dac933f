"""The statements of the log in SQLite's SQL.

They are written out, so that no command waits for SQLAlchemy to be loaded and to compile them; a
test holds each equal to what it compiles from the tables.
"""


class SqliteStatements:
    """`Statements` for SQLite."""

    head = """
SELECT events.version, events.position, events.hash
FROM events
WHERE events.stream = ? ORDER BY events.version DESC LIMIT 1 OFFSET 0"""

    tip = """
SELECT last.position, last.hash, own.version, own.hash AS own_hash
FROM (SELECT events.position AS position, events.hash AS hash
FROM events ORDER BY events.position DESC LIMIT 1 OFFSET 0) AS last
LEFT OUTER JOIN (SELECT events.version AS version, events.hash AS hash
FROM events
WHERE events.stream = ? ORDER BY events.version DESC LIMIT 1 OFFSET 0) AS own ON 1 = 1"""

    extent = "SELECT count(*) AS number, max(events.position) AS last FROM events"

    last = "SELECT coalesce(max(events.position), 0) AS last FROM events"

    insert_event = """
INSERT INTO events (position, stream, version, event_id, type, recorded_at, hash, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""

    insert_command = """
INSERT INTO commands (command_id, stream, digest, first_version, last_version)
VALUES (?, ?, ?, ?, ?)"""

    read = """
SELECT events.position, events.stream, events.version, events.event_id, events.type,
events.recorded_at, events.hash, events.body
FROM events
WHERE events.stream = ? AND events.version > ? AND events.version <= ?
ORDER BY events.version LIMIT ? OFFSET 0"""

    read_all = """
SELECT events.position, events.stream, events.version, events.event_id, events.type,
events.recorded_at, events.hash, events.body
FROM events
WHERE events.position > ? ORDER BY events.position LIMIT ? OFFSET 0"""

    rows = """
SELECT events.position, events.stream, events.version, events.event_id, events.type,
events.recorded_at, events.hash, events.body
FROM events
WHERE events.stream = ? AND events.version > ? ORDER BY events.version LIMIT ? OFFSET 0"""

    next_stream = """
SELECT events.stream
FROM events
WHERE events.stream > ? ORDER BY events.stream LIMIT 1 OFFSET 0"""

    delete_fold = "DELETE FROM folds WHERE folds.stream = ? AND folds.reducer = ?"

    insert_fold = """
INSERT INTO folds (stream, reducer, reducer_version, version, state) VALUES (?, ?, ?, ?, ?)"""

    fold = """
SELECT folds.stream, folds.reducer, folds.reducer_version, folds.version, folds.state
FROM folds
WHERE folds.stream = ? AND folds.reducer = ? AND folds.reducer_version = ?"""

    insert_refusal = """
INSERT INTO refusals (at, stream, actor, command, code, message, data)
VALUES (?, ?, ?, ?, ?, ?, ?)"""

    claims = """
SELECT commands.command_id, commands.stream, commands.digest, commands.first_version,
commands.last_version, first.body AS first_body, last.body AS last_body FROM commands LEFT OUTER
JOIN events AS first ON first.stream = commands.stream AND first.version =
commands.first_version LEFT OUTER JOIN events AS last ON last.stream = commands.stream AND
last.version = commands.last_version WHERE commands.command_id > ? ORDER BY commands.command_id
LIMIT ? OFFSET 0"""

    refusals = """
SELECT refusals.id, refusals.at, refusals.stream, refusals.actor, refusals.command, refusals.code,
refusals.message, refusals.data
FROM refusals
WHERE refusals.id > ? ORDER BY refusals.id LIMIT ? OFFSET 0"""
