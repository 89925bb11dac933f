"""Options that every command takes may stand anywhere on the line, as with kubectl."""

from __future__ import annotations

#: Each takes a value.
EVERYWHERE = frozenset(
    {
        "--root",
        "--root-is",
        "--database-url",
        "--journal",
        "--output",
        "-o",
        "--color",
        "--log-level",
        "--actor",
    }
)

#: These take none.
FLAGS = frozenset({"--as-is"})


def hoist(arguments: list[str]) -> list[str]:
    """Return the line with the options of every command first; ``--`` ends the search."""
    first: list[str] = []
    rest: list[str] = []
    queue = list(arguments)
    while queue:
        word = queue.pop(0)
        if word == "--":
            rest += [word, *queue]
            break
        name, value = _parted(word)
        if word in FLAGS:
            first.append(word)
        elif name not in EVERYWHERE:
            rest.append(word)
        elif value is not None:
            first += [name, value]
        elif queue:
            first += [name, queue.pop(0)]
        else:
            rest.append(word)
    return first + rest


def _parted(word: str) -> tuple[str, str | None]:
    """Return an option and the value in the same word: ``-ojson``, ``-o=json``, ``--root=x``."""
    if word.startswith("-o") and len(word) > 2:
        return "-o", word[2:].removeprefix("=")
    name, equals, value = word.partition("=")
    return name, value if equals else None


def value_of(arguments: list[str], *names: str) -> str | None:
    """Return the last value that a hoisted line gives to an option of these names."""
    value = None
    valued = [word for word in arguments if word not in FLAGS]
    for name, given in zip(valued[::2], valued[1::2], strict=False):
        if name not in EVERYWHERE:
            break
        value = given if name in names else value
    return value
