"""The items of a workflow and its machines that wait for a person, with permanent numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

#: Digits and letters for the number of an item, without letters that look like others (Crockford's
#: base 32). A number has twelve of them (60 bits), so nobody can create a proposal with the same
#: number as another one.
_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"
_LENGTH, _GROUP = 12, 4


class InboxItem(NamedTuple):
    """An item in a workflow folder that waits for a person: its kind, subject and text.

    ``lines`` maps each possible action (approve, reject, answer or statement) to its command line.
    ``mark`` is a digest of the item's content. ``of`` is the id of the workflow or machine.
    """

    root: str
    kind: str
    subject: str
    text: str
    lines: Mapping[str, list[str]]
    mark: str
    of: str

    def to_dict(self, number: str) -> dict[str, Any]:
        """Return the item as JSON values, with its number."""
        return {
            "number": number,
            "of": self.of,
            "root": self.root,
            "kind": self.kind,
            "subject": self.subject,
            "text": self.text,
            "answers": sorted(self.lines),
        }


def number_items(asked: Sequence[InboxItem]) -> dict[str, InboxItem]:
    """Return the waiting items by their numbers.

    A number is computed from the item's content and not from its position in the list. A number
    that a person has read can therefore never refer to another item later.
    """
    return {_compute_number(one): one for one in asked}


def normalize_item_number(text: str) -> str:
    """Convert a number that a user typed to the form used in the list.

    This form has lower-case letters, and dashes between groups.
    """
    letters = "".join(letter for letter in text.lower() if letter.isalnum())
    return "-".join(letters[at : at + _GROUP] for at in range(0, len(letters), _GROUP))


def _compute_number(one: InboxItem) -> str:
    known = "\0".join((one.root, one.kind, one.subject, one.mark))
    found = int.from_bytes(sha256(known.encode()).digest())
    return normalize_item_number("".join(_LETTERS[found >> 5 * at & 31] for at in range(_LENGTH)))
