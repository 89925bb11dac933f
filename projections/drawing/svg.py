"""Pictures of stages as SVG: layers, colours, pieces of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import NamedTuple
from unicodedata import east_asian_width
from xml.sax.saxutils import escape, quoteattr

from projections.words.text import in_lines


def element(name: str, content: str = "", /, **attributes: object) -> str:
    """Return one element; ``content`` is markup, ``class_`` stands for ``class``."""
    given = "".join(
        f" {key.rstrip('_').replace('_', '-')}={quoteattr(in_lines(number(value)))}"
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{given}>{content}</{name}>" if content else f"<{name}{given}/>"


def text(value: str, /, **attributes: object) -> str:
    """Return a text element that shows ``value``."""
    return element("text", escape(in_lines(value)), **attributes)


def title(value: str) -> str:
    """Return what is shown and read out for the element around it."""
    return element("title", escape(in_lines(value)))


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


def picture(
    name: str,
    style: str,
    size: tuple[int, int],
    of: str,
    parts: Iterable[str],
    role: str = "img",
) -> str:
    """Return the ``svg`` element of a class, on a ground of ``size``, titled with what it is of.

    ``role`` is ``group`` of one that holds links.
    """
    width, height = size
    inner = [
        title(of),
        element("style", variables(f".{name}") + style),
        element("rect", width=width, height=height, class_="ground"),
        *parts,
    ]
    return element(
        "svg", "\n".join(["", *inner, ""]), xmlns="http://www.w3.org/2000/svg", class_=name,
        role=role, width=width, height=height, viewBox=f"0 0 {width} {height}",
    )  # fmt: skip


def file_of(drawing: str) -> Iterator[str]:
    """Yield the file of a picture alone."""
    yield from ('<?xml version="1.0" encoding="UTF-8"?>\n', drawing, "\n")


#: Name → the colour by light and in the dark.
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


def variables(selector: str) -> str:
    """Return CSS that gives ``selector`` the colours as ``--name``; paper is always light."""
    light, dark = (
        "".join(f"--{name}:{both[place]};" for name, both in _COLORS.items()) for place in (0, 1)
    )
    return (
        f"{selector}{{{light}}}"
        f"@media screen and (prefers-color-scheme:dark){{{selector}{{{dark}}}}}"
    )


def light(name: str) -> str:
    """Return the colour for what knows no other theme, as ``#rrggbb``."""
    return _COLORS[name][0]


#: Sweeps down and up; a stage graph settles in two or three.
_SWEEPS = 4

Point = tuple[float, float]


class Layout(NamedTuple):
    """Places in units of one node: x from 0, layer y from 0.

    ``edges`` lead from a dependency to its dependent through the places between.
    """

    nodes: dict[str, Point]
    edges: dict[tuple[str, str], list[Point]]
    width: int
    height: int


def layout(needs: Mapping[str, Sequence[str]]) -> Layout:
    """Return the places of the nodes of an acyclic graph: node → what it depends on.

    The same graph gives the same places. A dependency on what is not there is left out.
    """
    known = {node: [d for d in deps if d in needs] for node, deps in needs.items()}
    layers = layers_of(known)
    rows, paths = _rows(known, layers)
    _settle(rows, paths.values())
    width = max((len(row) for row in rows), default=0)
    places = {
        name: (x + (width - len(row)) / 2, float(y))
        for y, row in enumerate(rows)
        for x, name in enumerate(row)
    }
    edges = {edge: [places[name] for name in path] for edge, path in paths.items()}
    return Layout({node: places[node] for node in known}, edges, width, len(rows))


def layers_of(needs: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Return the length of the longest way to each node, in an acyclic graph."""
    found: dict[str, int] = {}
    waiting = list(needs)
    while waiting:
        ready = [node for node in waiting if all(dep in found for dep in needs[node])]
        for node in ready:
            found[node] = 1 + max((found[dep] for dep in needs[node]), default=-1)
        # A circle never gets ready; its nodes stand below all others.
        stuck = () if ready else waiting
        found.update((node, len(found)) for node in stuck)
        waiting = [node for node in waiting if node not in found]
    return found


def _rows(
    needs: Mapping[str, Sequence[str]], layers: Mapping[str, int]
) -> tuple[list[list[str]], dict[tuple[str, str], list[str]]]:
    """Return the names in each layer, those that lead long edges through it included."""
    rows: list[list[str]] = [[] for _ in range(max(layers.values(), default=-1) + 1)]
    for node, layer in layers.items():
        rows[layer].append(node)
    paths = {}
    for node, deps in needs.items():
        for dep in deps:
            between = range(layers[dep] + 1, layers[node])
            bends = [f"{dep}\0{node}\0{layer}" for layer in between]
            for layer, bend in zip(between, bends, strict=True):
                rows[layer].append(bend)
            paths[dep, node] = [dep, *bends, node]
    return rows, paths


def _settle(rows: list[list[str]], paths: Iterable[Sequence[str]]) -> None:
    """Order each row by the mean place of its neighbours in the row before it."""
    links: dict[str, list[str]] = {}
    for one, other in chain.from_iterable(map(pairwise, paths)):
        links.setdefault(one, []).append(other)
        links.setdefault(other, []).append(one)
    for sweep in range(_SWEEPS):
        order = range(1, len(rows)) if sweep % 2 == 0 else range(len(rows) - 2, -1, -1)
        for y in order:
            before = rows[y - 1] if sweep % 2 == 0 else rows[y + 1]
            places, means = _centred(before), _centred(rows[y])
            for name in rows[y]:
                near = [places[one] for one in links.get(name, ()) if one in places]
                means[name] = sum(near) / len(near) if near else means[name]
            rows[y].sort(key=means.__getitem__)


def _centred(row: Sequence[str]) -> dict[str, float]:
    return {name: x - (len(row) - 1) / 2 for x, name in enumerate(row)}
