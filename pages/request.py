"""What a browser asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

from service.errors import InvalidOption, NotFound

#: Letters of an address that are looked at.
_LONGEST = 8000


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A path in its parts, decoded, and the values behind it, the last of each name."""

    path: str
    parts: tuple[str, ...]
    values: Mapping[str, str]

    def text(self, name: str) -> str | None:
        """Return a value, None where it is not given or empty."""
        return self.values.get(name, "").strip() or None

    def number(self, name: str) -> int | None:
        """Return a whole number from 0 on; raises `InvalidOption`."""
        text = self.text(name)
        if text is None:
            return None
        if not (text.isdecimal() and text.isascii() and len(text) < 16):
            raise InvalidOption(f"{name}: expected a whole number, found {text!r:.80}")
        return int(text)


def parsed(target: str) -> PageRequest:
    """Return what a request's line asks for; raises `NotFound`, `InvalidOption`."""
    if len(target) > _LONGEST or not target.startswith("/"):
        raise NotFound("expected the path of a page")
    split = urlsplit(target)
    try:
        values = parse_qs(split.query, errors="strict", max_num_fields=40)
        parts = tuple(unquote(part, errors="strict") for part in split.path.split("/")[1:])
    except ValueError as error:
        raise InvalidOption(f"expected an address in UTF-8, found another: {error}") from error
    return PageRequest(split.path, parts, {name: found[-1] for name, found in values.items()})
