"""Find triggers of other programs in the database of a log."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator

from eventstore.event import TRIGGERS

_GUARDED = ("commands", "events", "folds", "refusals")
_ASKED = f"SELECT type, name, sql FROM sqlite_master WHERE tbl_name IN {_GUARDED} ORDER BY name"
_CLAUSE = re.compile(r"ON\s+CONFLICT|^\s*CREATE\s+(?:VIRTUAL|VIEW)", re.IGNORECASE)


def foreign_rules(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield a description of each trigger or rule on the log that wfctl did not create."""
    for kind, name, sql in connection.execute(_ASKED):
        if kind == "trigger" and " ".join(str(sql).split()) not in TRIGGERS:
            yield f"the trigger {name!r:.80}"
        elif kind != "trigger" and _CLAUSE.search(str(sql)):
            yield f"an additional rule in the {kind} {name!r:.80}"
