"""How commits stand among what was found of files, and among the marks of what was there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

#: Where the commits stand that the branches lead to; their marks are named as events can hold.
COMMITS = "\0commits"
_TIP = "commit "


def marks_of_tips(ids: Iterable[str]) -> dict[str, str]:
    """Return the marks of the commits that the branches lead to."""
    return dict.fromkeys((_TIP + id_ for id_ in ids), "there")


def tips_in(earlier: Mapping[str, str]) -> list[str]:
    """Return the commits among the marks of what was there before."""
    return [name.removeprefix(_TIP) for name in earlier if name.startswith(_TIP)]


def place_of_commit(id_: str) -> str:
    """Return where, among what was found of files, a commit stands; no file is named so."""
    return f"\0commit {id_}"
