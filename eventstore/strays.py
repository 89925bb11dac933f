"""Rows beside the events that nobody reads: they hold no claim and no refusal, or claim nothing.

They change nothing, for a claim counts by the event it names and a refusal by what it says. Yet
somebody wrote them past us, and whoever looks at the log should know.
"""

from collections.abc import Callable, Iterator
from typing import Any

import orjson

from eventstore.intake import CLAIM, refused
from eventstore.sql import Statements
from eventstore.verification import Finding

Fetch = Callable[[str, tuple[Any, ...]], list[Any]]

_CHUNK, _LONGEST = 1000, 1000


def strays(fetch: Fetch, sql: Statements) -> Iterator[Finding]:
    """Each row of the commands and of the refusals that is not valid, and why."""
    for row in _rows(fetch, sql.claims, ""):
        why = _of_claim(row)
        if why is not None:
            yield _finding(row[1], f"commands, {row[0]!r:.80}: {why}")
    for row in _rows(fetch, sql.refusals, 0):
        found = refused(row[1:])
        if isinstance(found, str):
            yield _finding(row[2], f"refusals, row {row[0]}: {found}")


def _rows(fetch: Fetch, statement: str, after: Any) -> Iterator[Any]:
    while rows := fetch(statement, (after, _CHUNK)):
        yield from rows
        after = rows[-1][0]


def _finding(stream: Any, message: str) -> Finding:
    named = stream if isinstance(stream, str) else None
    return Finding(named, None, None, "stray", f"{message}; it counts for nothing")


def _of_claim(row: Any) -> str | None:
    """Why a row is no claim: its command, stream, digest, versions, and the texts at both."""
    *claim, first, last = row
    if not all(map(isinstance, claim, CLAIM)):
        return "expected texts and numbers, found another kind of value"
    command, _, _, begin, end = claim
    if not 0 < len(command) <= _LONGEST or "\0" in command:
        return f"expected an id of 1 to {_LONGEST:,} letters, found {len(command):,}"
    if begin > end:
        return None  # a command that recorded nothing
    for version, text in ((begin, first), (end, last)):
        found = _command(text)
        if found is None:
            return f"it claims version {version}, which does not exist"
        if found != command:
            return f"it claims version {version}, which is of command {found!r:.80}"
    return None


def _command(text: Any) -> str | None:
    """The command of an event by its text; None where there is no text."""
    if text is None:
        return None
    try:
        body = orjson.loads(text)
    except (ValueError, TypeError):
        body = None
    return str(body.get("command_id")) if isinstance(body, dict) else "(no event)"
