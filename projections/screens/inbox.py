"""What waits for a person in one workflow and its machines, each by a number that stays its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

#: Digits of a number; more where two of what waits would have the same.
_DIGITS, _MORE = 4, 8


class Asked(NamedTuple):
    """What waits in a root: its kind, of what, said how, and what is done of it.

    ``lines``: an answer (approve, reject, answer, statement) → the command line that gives it.
    ``mark`` is what it is known by: another one has another.
    """

    root: str
    kind: str
    subject: str
    text: str
    lines: Mapping[str, list[str]]
    mark: str
    of: str

    def to_dict(self, number: int) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "number": number,
            "of": self.of,
            "root": self.root,
            "kind": self.kind,
            "subject": self.subject,
            "text": self.text,
            "answers": sorted(self.lines),
        }


def numbered(asked: Sequence[Asked]) -> dict[int, Asked]:
    """Return what waits by its number, which comes from what it is and not from its place.

    So a number that a person read a minute ago never means something else now.
    """
    short = [_number(one, _DIGITS) for one in asked]
    taken = Counter(short)
    return {
        number if taken[number] == 1 else _number(one, _MORE): one
        for number, one in zip(short, asked, strict=True)
    }


def _number(one: Asked, digits: int) -> int:
    known = "\0".join((one.root, one.kind, one.subject, one.mark))
    least = 10 ** (digits - 1)
    return int(least + int(sha256(known.encode()).hexdigest(), 16) % (9 * least))
