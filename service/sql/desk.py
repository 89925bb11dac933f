"""The port to a connection at which questions are asked, and what all engines refuse alike."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from service.errors import SqlRefused

#: The first word of a statement, comments before it; each is passed over once (``?>``, ``*+``).
_OPENING = re.compile(r"(?:[\s(]|--[^\n]*|(?>/\*.*?\*/))*+([a-z]+)\b", re.IGNORECASE | re.DOTALL)


class QueryResult(NamedTuple):
    """The names of the columns, and the rows."""

    columns: list[str]
    rows: Iterator[Sequence[Any]]


class Desk(Protocol):
    """A connection at which questions are asked; what it makes, it makes for itself alone."""

    @property
    def dialect(self) -> str:
        """``sqlite`` or ``postgresql``."""
        ...

    def make(self, statement: str) -> None:
        """Carry out a statement of ours, before any question."""
        ...

    def fill(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        """Put rows into a temporary table."""
        ...

    def one(self, statement: str) -> Any:
        """Return the first column of the first row of a statement of ours, None without any."""
        ...

    def ask(self, sql: str, parameters: dict[str, Any], seconds: float) -> QueryResult:
        """Return what one reading statement yields; from the first on, nothing can be written.

        Parameters are spelt ``:name``. Raises `SqlRefused`, `SqlWrong`, `SqlTooLong`.
        """
        ...

    def close(self) -> None:
        """Forget everything."""
        ...


def expect_reading(sql: str, words: frozenset[str]) -> None:
    """Raise `SqlRefused` for a statement that begins with none of the words of those that read."""
    opening = _OPENING.match(sql)
    if opening is None or opening[1].upper() not in words:
        raise SqlRefused(repr(" ".join(sql.split())[:60]))
