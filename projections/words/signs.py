"""Text of others, for people: what steers a terminal, or cannot be seen, becomes a sign."""

from __future__ import annotations

import re
from collections.abc import Callable

#: Printable by its class in Unicode, and yet nothing to see: fillers, joiners, selectors, blanks.
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0100-\U000e01ef]"
)
_MARK = "\N{REPLACEMENT CHARACTER}"


def spelled(text: str) -> str:
    """Return ``text`` on one line, with what cannot be seen spelled as Python does: ``\\u202e``.

    That is control characters (also those above ASCII), what turns the direction of writing, and
    what has no width.
    """
    return _with(text, lambda letter: letter.encode("unicode_escape").decode())


def marked(text: str) -> str:
    """Return ``text`` on one line, with one sign for each character that cannot be seen."""
    return _with(text, lambda _: _MARK)


def spelled_json(document: str) -> str:
    """Return JSON of the same value in which every character can be seen."""
    # What cannot be seen stands inside of strings alone, but for the ends of lines.
    return "\n".join(_with(line, _json) for line in document.split("\n"))


def _with(text: str, sign: Callable[[str], str]) -> str:
    if text.isprintable() and _UNSEEN.search(text) is None:
        return text
    return "".join(
        letter if letter.isprintable() and not _UNSEEN.match(letter) else sign(letter)
        for letter in text
    )


def _json(letter: str) -> str:
    code = ord(letter)
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
