"""What a server does of itself when a row is put into the log: our triggers, and nobody else's.

Whoever owns the tables can add a trigger, a rule or a policy that swallows each event as it is
appended, or hides it. Then an append would be acknowledged, and nothing would be there.
"""

from collections.abc import Callable, Iterator
from typing import Any

from eventstore.errors import ForeignRule

_GUARDED = ("commands", "events", "folds", "refusals")
#: What pg_trigger says of a trigger before a statement, by what it is for.
_BEFORE = {"delete": 2 | 8, "update": 2 | 16, "truncate": 2 | 32}
_BODIES = {
    "events": "BEGIN RAISE EXCEPTION 'events are append-only'; END",
    "commands": "BEGIN RAISE EXCEPTION '% are append-only', TG_TABLE_NAME; END",
    "refusals": "BEGIN RAISE EXCEPTION '% are append-only', TG_TABLE_NAME; END",
}
#: The triggers that the migrations make: table, name, kind, and the text of the function.
_TRIGGERS = frozenset(
    (table, f"{table}_no_{verb}", kind, body)
    for table, body in _BODIES.items()
    for verb, kind in _BEFORE.items()
)
_TABLES = ", ".join(f"to_regclass('{table}')" for table in _GUARDED)
_ASKED = f"""
SELECT 'trigger', c.relname, t.tgname, t.tgtype::int, p.prosrc
FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid
WHERE t.tgrelid IN ({_TABLES}) AND NOT t.tgisinternal
UNION ALL
SELECT 'rule', c.relname, r.rulename, 0, ''
FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class WHERE r.ev_class IN ({_TABLES})
UNION ALL
SELECT 'policy', c.relname, o.polname, 0, ''
FROM pg_policy o JOIN pg_class c ON c.oid = o.polrelid WHERE o.polrelid IN ({_TABLES})
ORDER BY 1, 2, 3"""

Fetch = Callable[[str], list[tuple[Any, ...]]]


def foreign_rules(fetch: Fetch) -> Iterator[str]:
    """What would act on rows of the log, and is none of ours."""
    for kind, table, name, type_, body in fetch(_ASKED):
        if (table, name, type_, " ".join(body.split())) not in _TRIGGERS:
            yield f"the {kind} {name!r:.80} on the table {table}"


def require_own_rules(fetch: Fetch, address: str) -> None:
    """Refuse to write where somebody else's rule would decide what is kept. Raises ForeignRule."""
    found = next(foreign_rules(fetch), None)
    if found is not None:
        raise ForeignRule(address, found)
