"""One event after a known head: one statement of SQLite's, and so its own transaction.

A trigger does what the statements of another append do: a temporary one, on a view that holds
nothing, so neither is a part of the database. It refuses the event if the one before it in the log
is not the one that was seen there, as after a restore; what is taken, a unique index refuses.
"""

from collections.abc import Iterable
from typing import Any

from eventstore.tables import commands, events


def _listed(names: Iterable[Any], before: str = "") -> str:
    return ", ".join(f"{before}{name}" for name in names)


_EVENT = events.columns.keys()
_CLAIM = ("command_id", "digest")
_COLUMNS = (*_EVENT, *_CLAIM, "last_hash")

_NULLS = _listed(f"NULL AS {name}" for name in _COLUMNS)

#: What makes the view and its trigger, once for a connection.
PREPARE = (
    f"CREATE TEMP VIEW IF NOT EXISTS next_event AS SELECT {_NULLS}",
    f"""
CREATE TEMP TRIGGER IF NOT EXISTS next_event_recorded INSTEAD OF INSERT ON next_event BEGIN
  SELECT RAISE(ABORT, 'another head')
  WHERE NEW.last_hash IS NOT (SELECT hash FROM events WHERE position = NEW.position - 1);
  INSERT INTO commands ({_listed(commands.columns.keys())})
  VALUES (NEW.command_id, NEW.stream, NEW.digest, NEW.version, NEW.version);
  INSERT INTO events ({_listed(_EVENT)}) VALUES ({_listed(_EVENT, "NEW.")});
END""",
)
#: The columns of an event's row, then command id, digest, and the hash that the log ends with.
INSERT = f"INSERT INTO next_event VALUES ({_listed('?' for _ in _COLUMNS)})"
