"""Which journal keeps an acknowledged append safe on a given file system."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from eventstore.sqlite.filesystem import is_network, kind_of


class Journal(NamedTuple):
    """A journal mode with the sync level that makes it durable, and why it was chosen."""

    mode: str
    synchronous: str
    reason: str


_SYNCHRONOUS = {"wal": "FULL", "truncate": "EXTRA"}


def journal_for(
    path: Path, override: str | None = None, kind: Callable[[Path], str] = kind_of
) -> Journal:
    """The journal for a database at `path`; `override` is "wal" or "truncate".

    Raises ValueError for another override.
    """
    if override is not None:
        return of_mode(override, "as it was asked for")
    found = kind(path.parent)
    if is_network(found):
        return of_mode("truncate", f"{found} may be shared by hosts, where WAL is unsafe")
    return of_mode("wal", f"{found} is local")


def of_mode(mode: str, reason: str) -> Journal:
    """The journal of a mode. Raises ValueError where the mode is not durable."""
    if mode not in _SYNCHRONOUS:
        raise ValueError(f"expected journal mode wal or truncate, found {mode!r}")
    return Journal(mode, _SYNCHRONOUS[mode], reason)
