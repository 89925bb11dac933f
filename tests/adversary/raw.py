"""Write rows to the event log with plain SQL, as an attacker with access to it could."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

Body = dict[str, Any]

INSERT = "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'forged')"


def spelled(body: Any) -> str:
    """Encode a value as the log does: sorted keys, no spaces."""
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def sha(text: str) -> str:
    """Return the SHA-256 hash of a text, as used in the hash chain of the event log."""
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def connected(root: Path) -> sqlite3.Connection:
    """Open the database of a root directly, without wfctl."""
    return sqlite3.connect(root / ".wfctl/events.db", isolation_level=None)


def bodies(root: Path) -> list[Body]:
    """Return the envelopes of the log in order, each with the ``hash`` of its row."""
    with connected(root) as database:
        rows = database.execute("SELECT body, hash FROM events ORDER BY position").fetchall()
    return [{**json.loads(text), "hash": hash_} for text, hash_ in rows]


def following(root: Path, type_: str, data: Any, **envelope: Any) -> Body:
    """Return an envelope that continues the log as wfctl would write it."""
    last = bodies(root)[-1]
    number = last["version"] + 1
    body = {**last, "type": type_, "data": data, "schema_version": 1, "version": number}
    del body["hash"]
    own = f"forged-{number}"
    named = {"event_id": own, "command_id": own, "causation_id": None, "correlation_id": own}
    return {**body, **named, "prev_hash": last["hash"], **envelope}


def insert(root: Path, body: Body, text: str | None = None, **columns: Any) -> None:
    """Insert a row into the log. Values in ``columns`` override those of the envelope."""
    text = spelled(body) if text is None else text
    row = {
        "position": None,
        **{name: body[name] for name in ("stream", "version", "event_id", "type", "recorded_at")},
        "hash": sha(text),
        "body": text,
        **columns,
    }
    with connected(root) as database:
        (last,) = database.execute("SELECT max(position) FROM events").fetchone()
        database.execute(INSERT, [row.pop("position") or last + 1, *row.values()])


def append(root: Path, type_: str, data: Any, **envelope: Any) -> None:
    """Append a row that continues the hash chain correctly."""
    insert(root, following(root, type_, data, **envelope))


def tamper(root: Path, *statements: str) -> None:
    """Change rows with SQL, after dropping the triggers that protect them."""
    with connected(root) as database:
        for verb in ("update", "delete"):
            database.execute(f"DROP TRIGGER IF EXISTS events_no_{verb}")
        database.create_function("sha", 1, sha)
        for statement in statements:
            database.execute(statement)


def rechained(root: Path, edit: Callable[[list[Body]], list[Body]]) -> None:
    """Rewrite all streams with edited envelopes and a valid hash chain."""
    with connected(root) as database:
        for verb in ("update", "delete"):
            database.execute(f"DROP TRIGGER IF EXISTS events_no_{verb}")
        rows = database.execute("SELECT position, body FROM events ORDER BY position").fetchall()
        previous: dict[str, str] = {}
        for (position, _), body in zip(rows, edit([json.loads(t) for _, t in rows]), strict=True):
            body["prev_hash"] = previous.get(body["stream"], body["prev_hash"])
            text = spelled(body)
            previous[body["stream"]] = sha(text)
            database.execute(
                "UPDATE events SET body = ?, hash = ? WHERE position = ?",
                (text, sha(text), position),
            )
