"""Options that every command takes may stand anywhere on the line, as with kubectl."""

from __future__ import annotations

#: Each takes a value.
EVERYWHERE = frozenset({"--root", "--database-url", "--output", "-o", "--color", "--actor"})


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
        if word in EVERYWHERE and queue:
            first += [word, queue.pop(0)]
        elif word.split("=", 1)[0] in EVERYWHERE and "=" in word:
            first.append(word)
        else:
            rest.append(word)
    return first + rest
