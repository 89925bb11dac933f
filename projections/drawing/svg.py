"""Pieces of SVG text, and how wide text is where nothing can measure it."""

from __future__ import annotations

from unicodedata import east_asian_width
from xml.sax.saxutils import escape, quoteattr

#: Characters that XML 1.0 has no way to write.
_UNWRITABLE = {code: "\N{REPLACEMENT CHARACTER}" for code in range(32) if code not in (9, 10, 13)}


def element(name: str, content: str = "", /, **attributes: object) -> str:
    """Return one element; ``content`` is markup, ``class_`` stands for ``class``."""
    given = "".join(
        f" {key.rstrip('_').replace('_', '-')}={quoteattr(clean(number(value)))}"
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{given}>{content}</{name}>" if content else f"<{name}{given}/>"


def text(value: str, /, **attributes: object) -> str:
    """Return a text element that shows ``value``."""
    return element("text", escape(clean(value)), **attributes)


def title(value: str) -> str:
    """Return what is shown and read out for the element around it."""
    return element("title", escape(clean(value)))


def clean(value: str) -> str:
    """Return ``value`` without what XML cannot hold."""
    return value.translate(_UNWRITABLE).encode("utf-8", "replace").decode()


def number(value: object) -> str:
    """Return a coordinate with at most two decimals, anything else as it is."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def columns(value: str) -> int:
    """Return how many columns of a terminal, or half-ems, ``value`` takes."""
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in value)


def shortened(value: str, width: int) -> str:
    """Return ``value`` in at most ``width`` columns, an ellipsis at its end where it is cut."""
    value = " ".join(value.split())
    if columns(value) <= width:
        return value
    while value and columns(value) >= width:
        value = value[:-1]
    return value.rstrip() + "…"


def wrapped(value: str, width: int) -> list[str]:
    """Return ``value`` in one or two lines of at most ``width`` columns, the rest cut off."""
    first = ""
    words = value.split()
    while words and columns(f"{first} {words[0]}".strip()) <= width:
        first = f"{first} {words.pop(0)}".strip()
    rest = " ".join(words)
    return [line for line in (first, shortened(rest, width)) if line]
