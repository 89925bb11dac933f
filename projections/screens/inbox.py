"""What waits for a person in one workflow and its machines, each by a number that stays its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

#: Letters that are not taken for each other (Crockford's base 32). Twelve of them are 60 bits:
#: nobody finds, by proposals made for it, one that has the number of another.
_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"
_LENGTH, _GROUP = 12, 4


class InboxItem(NamedTuple):
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

    def to_dict(self, number: str) -> dict[str, Any]:
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


def numbered(asked: Sequence[InboxItem]) -> dict[str, InboxItem]:
    """Return what waits by its number, which comes from what it is and not from its place.

    So a number that a person read a minute ago never means something else now.
    """
    return {_number(one): one for one in asked}


def number_of(text: str) -> str:
    """Return a number as it is listed, however it was typed: in capitals, without its dashes."""
    letters = "".join(letter for letter in text.lower() if letter.isalnum())
    return "-".join(letters[at : at + _GROUP] for at in range(0, len(letters), _GROUP))


def _number(one: InboxItem) -> str:
    known = "\0".join((one.root, one.kind, one.subject, one.mark))
    found = int.from_bytes(sha256(known.encode()).digest())
    return number_of("".join(_LETTERS[found >> 5 * at & 31] for at in range(_LENGTH)))
