"""The table of what may go wrong: a code, its exit code, and how it is brought about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.cli.support import Answer, Place

Bring = Callable[[Path], Answer]


@dataclass(frozen=True)
class Row:
    """One thing that may go wrong."""

    code: str
    exit: int
    #: Makes the folder `root` in the folder that is given, and returns the answer in JSON.
    bring: Bring
    #: Words of the cause, which stand in the message before all advice.
    cause: str
    #: Without a command of ours: the person, the thing or the argument that the message names.
    names: str = ""
    #: Words for those in capitals in a command.
    given: dict[str, str] = field(default_factory=dict)
    #: What the message has somebody do before a command, by the command's beginning.
    first: dict[str, Callable[[Path], object]] = field(default_factory=dict)
    slow: bool = False

    @property
    def id(self) -> str:
        """The name of the row's test."""
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
    """Put a function into the table."""

    def put(bring: Bring) -> Bring:
        more = (names, given or {}, first or {}, slow)
        ROWS.append(Row(code, exit_, bring, cause, *more))
        return bring

    return put


def root_in(folder: Path) -> Path:
    """Return the root that rows make in a folder, made."""
    root = folder / "root"
    root.mkdir(parents=True, exist_ok=True)
    return root


def place_in(folder: Path) -> Place:
    """Return the words to work in a row's root."""
    return Place(root_in(folder))
