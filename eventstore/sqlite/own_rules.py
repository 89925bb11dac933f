"""What SQLite does of itself when a row is put into the log: our triggers, and nobody else's.

Whoever has SQL on the file can add a trigger that swallows each event as it is appended, or give a
table a clause that does. Then an append would be acknowledged, and nothing would be there.
"""

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from eventstore.errors import ForeignRule

_GUARDED = ("commands", "events", "folds", "refusals")
_REFUSE = (
    "CREATE TRIGGER {0}_no_{1} BEFORE {2} ON {0} BEGIN "
    "SELECT RAISE(ABORT, '{0} are append-only'); END"
)
_CLAIMED_ONCE = (
    "CREATE TRIGGER commands_claimed_once BEFORE INSERT ON commands BEGIN SELECT RAISE(ABORT, "
    "'the command is claimed by its event') WHERE EXISTS ( SELECT 1 FROM events WHERE event_id = "
    "NEW.command_id AND command_digest IS NOT NULL); END"
)
#: The triggers that the migrations make, each on one line.
TRIGGERS = frozenset(
    {
        _CLAIMED_ONCE,
        *(
            _REFUSE.format(table, verb, verb.upper())
            for table in ("commands", "events", "refusals")
            for verb in ("delete", "update")
        ),
    }
)
_ASKED = f"SELECT type, name, sql FROM sqlite_master WHERE tbl_name IN {_GUARDED} ORDER BY name"
_CLAUSE = re.compile(r"ON\s+CONFLICT|^\s*CREATE\s+(?:VIRTUAL|VIEW)", re.IGNORECASE)


def foreign_rules(connection: sqlite3.Connection) -> Iterator[str]:
    """What would act on rows of the log, and is none of ours."""
    for kind, name, sql in connection.execute(_ASKED):
        if kind == "trigger" and " ".join(str(sql).split()) not in TRIGGERS:
            yield f"the trigger {name!r:.80}"
        elif kind != "trigger" and _CLAUSE.search(str(sql)):
            yield f"a rule of its own in the {kind} {name!r:.80}"


def require_own_rules(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse to write where somebody else's rule would decide what is kept. Raises ForeignRule."""
    found = next(foreign_rules(connection), None)
    if found is not None:
        raise ForeignRule(path, found)
