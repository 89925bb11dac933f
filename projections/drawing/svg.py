"""Draw graphs of stages as SVG: layout, colours and texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from unicodedata import east_asian_width
from xml.sax.saxutils import escape, quoteattr

from projections.words.text import mark_invisible_in_each_line


def format_element(name: str, content: str = "", /, **attributes: object) -> str:
    """Return an SVG element as text. ``content`` is markup, and is not escaped.

    Because ``class`` is a Python keyword, the argument ``class_`` sets the attribute ``class``.
    """
    given = ""
    for key, value in attributes.items():
        if value is not None:
            text = mark_invisible_in_each_line(format_coordinate(value))
            given += f" {key.rstrip('_').replace('_', '-')}={quoteattr(text)}"
    return f"<{name}{given}>{content}</{name}>" if content else f"<{name}{given}/>"


def format_text(value: str, /, **attributes: object) -> str:
    """Return an SVG text element that shows ``value``."""
    return format_element("text", escape(mark_invisible_in_each_line(value)), **attributes)


def format_title(value: str) -> str:
    """Return an SVG title element.

    Browsers show the title as a tooltip, and screen readers read it aloud.
    """
    return format_element("title", escape(mark_invisible_in_each_line(value)))


def format_coordinate(value: object) -> str:
    """Return a number with at most two decimals, and any other value as a string."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def count_columns(value: str) -> int:
    """Return the display width of a string.

    A wide character, such as a Chinese one, has the width two, and any other one has the width one.
    """
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in value)


def shorten_text(value: str, width: int) -> str:
    """Return ``value`` shortened to a display width of at most ``width`` columns.

    If characters are removed, the result ends with an ellipsis.
    """
    value = " ".join(value.split())
    if count_columns(value) <= width:
        return value
    while value and count_columns(value) >= width:
        value = value[:-1]
    return value.rstrip() + "…"


def wrap_text(value: str, width: int) -> list[str]:
    """Return ``value`` as one or two lines of at most ``width`` columns.

    Omit any further text.
    """
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
    """Return a complete ``svg`` element of the given size, with title and style.

    ``of`` is the title, and ``name`` is the CSS class. ``role`` must be ``group`` for a picture
    that contains links.
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


def iterate_svg_file_parts(drawing: str) -> Iterator[str]:
    """Yield the parts of an SVG file that contains the picture."""
    yield from ('<?xml version="1.0" encoding="UTF-8"?>\n', drawing, "\n")


#: Name of a colour → its values in the light and in the dark theme.
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
    """Return CSS code that defines each colour as a variable ``--name`` for ``selector``.

    Printed pages always use the light theme.
    """
    light, dark = (
        "".join(f"--{name}:{both[place]};" for name, both in _COLORS.items()) for place in (0, 1)
    )
    return (
        f"{selector}{{{light}}}"
        f"@media screen and (prefers-color-scheme:dark){{{selector}{{{dark}}}}}"
    )


def get_light_color(name: str) -> str:
    """Return the light-theme value of a colour as ``#rrggbb``.

    It is for formats without a dark theme.
    """
    return _COLORS[name][0]


Point = tuple[float, float]
