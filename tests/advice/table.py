"""The table of errors: each has a code, an exit code, and a function that causes the error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.cli.support import Answer, Place

Bring = Callable[[Path], Answer]


@dataclass(frozen=True)
class Row:
    """An error that a command can return."""

    code: str
    exit: int
    #: Function that creates `root` in the given folder, causes the error there, and returns the
    #: JSON answer.
    bring: Bring
    #: Text that the message must contain before its suggestions: the cause of the error.
    cause: str
    #: Text that the message must contain if it suggests no command, such as a person or an option.
    names: str = ""
    #: Values for the placeholders in the suggested commands.
    given: dict[str, str] = field(default_factory=dict)
    #: Start of a suggested command → function that does what the message requires before this
    #: command.
    first: dict[str, Callable[[Path], object]] = field(default_factory=dict)
    slow: bool = False

    @property
    def id(self) -> str:
        """Return the test id of the row."""
        return f"{self.code}-{self.bring.__name__.lstrip('_')}"


ROWS: list[Row] = []


def row(
    code: str,
    exit_: int,
    cause: str,
    *,
    names: str = "",
    given: dict[str, str] | None = None,
    first: dict[str, Callable[[Path], object]] | None = None,
    slow: bool = False,
) -> Callable[[Bring], Bring]:
    """Return a decorator that adds a row with its function to the table of errors."""

    def put(bring: Bring) -> Bring:
        more = (names, given or {}, first or {}, slow)
        ROWS.append(Row(code, exit_, bring, cause, *more))
        return bring

    return put


def root_in(folder: Path) -> Path:
    """Create the root of a row in a folder, and return its path."""
    root = folder / "root"
    root.mkdir(parents=True, exist_ok=True)
    return root


def place_in(folder: Path) -> Place:
    """Return an object that runs commands in the root of a row."""
    return Place(root_in(folder))
