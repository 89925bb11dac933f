"""Pictures of stages as SVG: layers, colours and texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from unicodedata import east_asian_width
from xml.sax.saxutils import escape, quoteattr

from projections.words.text import in_lines


def format_element(name: str, content: str = "", /, **attributes: object) -> str:
    """Return an element. ``content`` is markup, and ``class_`` means the attribute ``class``."""
    given = "".join(
        f" {key.rstrip('_').replace('_', '-')}={quoteattr(in_lines(format_coordinate(value)))}"
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{given}>{content}</{name}>" if content else f"<{name}{given}/>"


def format_text(value: str, /, **attributes: object) -> str:
    """Return a text element that shows ``value``."""
    return format_element("text", escape(in_lines(value)), **attributes)


def format_title(value: str) -> str:
    """Return the title of an element, which browsers show and screen readers read aloud."""
    return format_element("title", escape(in_lines(value)))


def format_coordinate(value: object) -> str:
    """Return a number with at most two decimals, and any other value as a string."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def count_columns(value: str) -> int:
    """Return the number of columns in a terminal, or half-ems, of ``value``."""
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in value)


def shorten_text(value: str, width: int) -> str:
    """Return ``value`` in at most ``width`` columns, with an ellipsis if it was cut."""
    value = " ".join(value.split())
    if count_columns(value) <= width:
        return value
    while value and count_columns(value) >= width:
        value = value[:-1]
    return value.rstrip() + "…"


def wrap_text(value: str, width: int) -> list[str]:
    """Return ``value`` in one or two lines of at most ``width`` columns, and cut the rest."""
    first = ""
    words = value.split()
    while words and count_columns(f"{first} {words[0]}".strip()) <= width:
        first = f"{first} {words.pop(0)}".strip()
    rest = " ".join(words)
    return [line for line in (first, shorten_text(rest, width)) if line]


def format_picture(
    name: str,
    style: str,
    size: tuple[int, int],
    of: str,
    parts: Iterable[str],
    role: str = "img",
) -> str:
    """Return an ``svg`` element with a class, a background of ``size`` and a title.

    ``role`` is ``group`` for a picture that contains links.
    """
    width, height = size
    inner = [
        format_title(of),
        format_element("style", format_color_variables(f".{name}") + style),
        format_element("rect", width=width, height=height, class_="ground"),
        *parts,
    ]
    return format_element(
        "svg", "\n".join(["", *inner, ""]), xmlns="http://www.w3.org/2000/svg", class_=name,
        role=role, width=width, height=height, viewBox=f"0 0 {width} {height}",
    )  # fmt: skip


def file_of(drawing: str) -> Iterator[str]:
    """Yield the parts of a stand-alone file with the picture."""
    yield from ('<?xml version="1.0" encoding="UTF-8"?>\n', drawing, "\n")


#: Name → its colours in the light and in the dark theme.
_COLORS = {
    "ground": ("#f6f8fa", "#0d1117"),
    "card": ("#ffffff", "#161b22"),
    "ink": ("#1f2328", "#e6edf3"),
    "soft": ("#57606a", "#9ea7b3"),
    "line": ("#d0d7de", "#30363d"),
    "edge": ("#818b98", "#6e7681"),
    "completed": ("#116329", "#56d364"),
    "running": ("#0550ae", "#79c0ff"),
    "preparing": ("#0550ae", "#79c0ff"),
    "post_processing": ("#6639ba", "#d2a8ff"),
    "ready": ("#0a6b74", "#56d4dd"),
    "failed": ("#a40e26", "#ffa198"),
    "invalidated": ("#7d4e00", "#e3b341"),
    "pending": ("#57606a", "#9ea7b3"),
    "skipped": ("#57606a", "#9ea7b3"),
    "queue": ("#8c959f", "#6e7681"),
    "person": ("#bf8700", "#d29922"),
}


def format_color_variables(selector: str) -> str:
    """Return CSS that defines the colours for ``selector`` as ``--name``.

    Print is always light.
    """
    light, dark = (
        "".join(f"--{name}:{both[place]};" for name, both in _COLORS.items()) for place in (0, 1)
    )
    return (
        f"{selector}{{{light}}}"
        f"@media screen and (prefers-color-scheme:dark){{{selector}{{{dark}}}}}"
    )


def get_light_color(name: str) -> str:
    """Return the colour as ``#rrggbb``, for formats without a dark theme."""
    return _COLORS[name][0]


Point = tuple[float, float]
