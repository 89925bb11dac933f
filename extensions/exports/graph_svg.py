"""Draw the dependency graph of the stages, coloured by status, as ``svg`` or ``mermaid``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from math import ceil
from typing import NamedTuple

from extensions.exports.formats import ExportSource
from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.words.values import stage_number
from projections.drawing import svg
from projections.drawing.graph_layout import Layout, compute_layout, layers_of
from projections.drawing.svg import (
    Point,
    format_element,
    format_text,
    format_title,
    shorten_text,
    wrap_text,
)
from projections.words.text import collapse_whitespace

_WIDTH, _HEIGHT = 224, 78
_ACROSS, _DOWN = 24, 44
_MARGIN = 12
#: Length of the tip of an arrow.
_TIP = 6
#: Maximum number of cards of a chain in one row.
_MOST_ACROSS = 4
#: Maximum number of similar stages that are drawn as separate cards. If there are more, they share
#: one card.
_MOST = 12
#: Maximum number of rounds in which groups of similar stages are refined.
_ROUNDS = 50
#: Statuses in the order of urgency. The first status that occurs gives the colour of a card for
#: many stages.
_URGENT = (Status.FAILED, Status.RUNNING, Status.POST_PROCESSING, Status.PREPARING,
           Status.INVALIDATED, Status.READY, Status.PENDING, Status.SKIPPED,
           Status.COMPLETED)  # fmt: skip
#: Maximum number of characters of a name on a card. The name then fits even in the widest common
#: font.
_NAME = 22

_STYLE = (
    ".wf-graph{font:13px system-ui,sans-serif}"
    ".wf-graph .ground{fill:var(--card)}"
    ".wf-graph .card{fill:var(--card);stroke-width:1.5}"
    ".wf-graph .edge{fill:none;stroke:var(--edge);stroke-width:1.5}"
    ".wf-graph .tip{fill:var(--edge)}"
    ".wf-graph .name{fill:var(--ink);font-weight:600}"
    ".wf-graph .note{font-size:12px}"
)


def export_graph(source: ExportSource) -> Iterator[str]:
    """Yield the graph of the stages at the end of the source as an SVG file."""
    return svg.iterate_svg_file_parts(draw_graph(source.state()))


class _Grid(NamedTuple):
    """The positions of the cards of a graph. ``gap`` is the distance between cards in a row."""

    layout: Layout
    gap: int

    @property
    def size(self) -> tuple[int, int]:
        """The width and the height of the picture in pixels."""
        right, bottom = self.get_corner((self.layout.width, self.layout.height))
        return int(right) - self.gap + _MARGIN, int(bottom) - _DOWN + _MARGIN

    def get_corner(self, place: Point) -> Point:
        """Return the upper left corner of a card in pixels."""
        x, y = place
        return _MARGIN + x * (_WIDTH + self.gap), _MARGIN + y * (_HEIGHT + _DOWN)


def _fold_chain(chain: Layout) -> Layout:
    """Return a layout of a chain in rows from left to right. All rows but the last are full."""
    rows = ceil(chain.height / _MOST_ACROSS)
    width = ceil(chain.height / max(rows, 1))

    def fold(place: Point) -> Point:
        return float(place[1] % width), float(place[1] // width)

    nodes = {node: fold(place) for node, place in chain.nodes.items()}
    edges = {edge: [*map(fold, points)] for edge, points in chain.edges.items()}
    return Layout(nodes, edges, width, rows)


def draw_graph(state: Workflow, places_of: Callable[[str], str] | None = None) -> str:
    """Return an ``svg`` element with the dependency graph of the stages.

    If many stages are similar, they share one card. ``places_of`` returns the address to which the
    card of a stage links.
    """
    fans = _group_stages_into_cards(state)
    first_of = {stage.id: fan[0].id for fan in fans for stage in fan}
    places = compute_layout(
        {
            fan[0].id: list(
                dict.fromkeys(first_of.get(one, one) for s in fan for one in s.depends_on)
            )
            for fan in fans
        }
    )
    grid = _Grid(_fold_chain(places), _DOWN) if places.width == 1 else _Grid(places, _ACROSS)
    draw_edge = _draw_chain_edge if places.width == 1 else _draw_edge
    parts = [draw_edge(grid, points) for points in grid.layout.edges.values()]
    for fan in fans:
        corner = grid.get_corner(grid.layout.nodes[fan[0].id])
        card = _draw_card(fan[0], corner) if len(fan) == 1 else _draw_fan(fan, corner)
        if places_of is not None and len(fan) == 1:
            card = format_element("a", card, href=places_of(fan[0].id))
        parts.append(card)
    of = f"{len(state.stages)} stages of {state.id}, coloured by status"
    role = "img" if places_of is None else "group"
    return svg.format_picture("wf-graph", _STYLE, grid.size, of, parts, role)


def _group_stages_into_cards(state: Workflow) -> list[list[Stage]]:
    """Return the stages of each card in the graph.

    A card shows one stage, or many similar stages whose neighbours are similar too. Examples are
    the tasks of a fan-out, or the first stages of many parallel chains.
    """
    alike: dict[int, list[Stage]] = {}
    kinds = _number_alike_stages(state)
    for stage in state.stages.values():
        alike.setdefault(kinds[stage.id], []).append(stage)
    found: list[list[Stage]] = []
    for group in alike.values():
        found += [group] if len(group) > _MOST else [[stage] for stage in group]
    order = {id_: place for place, id_ in enumerate(state.stages)}
    return sorted(found, key=lambda fan: order[fan[0].id])


def _number_alike_stages(state: Workflow) -> dict[str, int]:
    """Return a group number for each stage. Similar stages have the same number.

    The initial groups have the same longest paths to the start and to the end of the graph. The
    groups of the neighbours then refine them until nothing changes. Small groups are split into
    single stages.
    """
    needs = {
        id_: [one for one in stage.depends_on if one in state.stages]
        for id_, stage in state.stages.items()
    }
    needed: dict[str, list[str]] = {id_: [] for id_ in needs}
    for id_, found in needs.items():
        for one in found:
            needed[one].append(id_)
    below, above = layers_of(needs), layers_of(needed)
    kinds = _number_keys({id_: (below[id_], above[id_]) for id_ in needs})
    for _ in range(_ROUNDS):
        sizes = Counter(kinds.values())
        keys = {
            id_: (
                kinds[id_],
                frozenset(kinds[one] for one in needs[id_]),
                frozenset(kinds[one] for one in needed[id_]),
                id_ if sizes[kinds[id_]] <= _MOST else "",
            )
            for id_ in needs
        }
        kinds = _number_keys(keys)
        if len(set(kinds.values())) == len(sizes):
            break
    return kinds


def _number_keys(keys: Mapping[str, Hashable]) -> dict[str, int]:
    """Return a number for each id. Ids with equal keys have equal numbers."""
    numbers: dict[Hashable, int] = {}
    return {id_: numbers.setdefault(key, len(numbers)) for id_, key in keys.items()}


def _draw_fan(fan: list[Stage], corner: Point) -> str:
    """Return a card for many stages, with the count of each status as text and as a bar."""
    x, y = corner
    counts = Counter(stage.status for stage in fan)
    told = [(status, counts[status]) for status in _URGENT if counts[status]]
    words = [f"{count} {status.value.replace('_', '-')}" for status, count in told]
    color = f"var(--{told[0][0].value})"
    name = f"{len(fan)} stages"
    ids = f"{fan[0].id} to {fan[-1].id}"
    counted = shorten_text(" · ".join(words), _NAME + 8)
    parts = [
        format_title(f"{name}, {ids}: {', '.join(words)}"),
        _draw_rectangle(x + 5, y + 5, "var(--line)"),
        _draw_rectangle(x, y, color),
        format_text(name, x=x + 16, y=y + 22, class_="name"),
        format_text(
            shorten_text(ids, _NAME + 6), x=x + 16, y=y + 38, class_="note", fill="var(--soft)"
        ),
        format_text(counted, x=x + 16, y=y + 54, class_="note", fill=color),
    ]
    left = x + 16.0
    for status, count in told:
        width = (_WIDTH - 32) * count / len(fan)
        fill = f"var(--{status.value})"
        parts.append(format_element("rect", x=left, y=y + 62, width=width, height=6, fill=fill))
        left += width
    return format_element("g", "".join(parts), class_="stages", data_stages=str(len(fan)))


def _draw_rectangle(x: float, y: float, stroke: str, dashes: str | None = None) -> str:
    size = {"width": _WIDTH, "height": _HEIGHT, "rx": 8}
    return format_element(
        "rect", x=x, y=y, **size, class_="card", stroke=stroke, stroke_dasharray=dashes
    )


def _draw_card(stage: Stage, corner: Point) -> str:
    """Return the card of one stage, with its name, id and status."""
    x, y = corner
    status, color = stage.status.value, f"var(--{stage.status.value})"
    lines = wrap_text(stage.name, _NAME)
    top = y + (26 if len(lines) > 1 else 34)
    names = [
        format_text(line, x=x + 16, y=top + 17 * n, class_="name") for n, line in enumerate(lines)
    ]
    retries = f" · retry {stage.retry_count}" if stage.retry_count else ""
    note = f"{stage.id} · {status.replace('_', '-')}{retries}"
    parts = [
        format_title(f"{stage.id} {stage.name}: {status}"),
        _draw_rectangle(x, y, color, "5 4" if status in ("pending", "skipped") else None),
        format_element("rect", x=x, y=y + 8, width=4, height=_HEIGHT - 16, fill=color),
        *names,
        format_text(note, x=x + 16, y=top + 17 * len(lines) + 3, class_="note", fill=color),
    ]
    return format_element("g", "".join(parts), class_="stage", data_stage=stage.id)


def _draw_edge(grid: _Grid, points: Sequence[Point]) -> str:
    """Return a curve from the bottom of one card to the top of another card."""
    (x, y), *rest = [
        (left + _WIDTH / 2, top + _HEIGHT / 2) for left, top in map(grid.get_corner, points)
    ]
    y += _HEIGHT / 2
    path = [f"M{x:g} {y:g}"]
    for number, (to_x, to_y) in enumerate(rest, 1):
        end = to_y - _HEIGHT / 2 - (_TIP if number == len(rest) else 0)
        bend = (end - y) / 2
        path.append(f"C{x:g} {y + bend:g} {to_x:g} {end - bend:g} {to_x:g} {end:g}")
        x, y = to_x, end
        if number < len(rest):
            y += _HEIGHT
            path.append(f"L{x:g} {y:g}")
    return _draw_arrow("".join(path), f"M{x - 4:g} {y:g}h8l-4 {_TIP}z")


def _draw_chain_edge(grid: _Grid, points: Sequence[Point]) -> str:
    """Return an arrow to the next card of a chain, in the same row or at the start of the next."""
    (x, y), (to_x, to_y) = map(grid.get_corner, points)
    if y == to_y:
        x, y, to_x = x + _WIDTH, y + _HEIGHT / 2, to_x - _TIP
        return _draw_arrow(f"M{x:g} {y:g}H{to_x:g}", f"M{to_x:g} {y - 4:g}v8l{_TIP} -4z")
    x, y, to_x, to_y = x + _WIDTH / 2, y + _HEIGHT, to_x + _WIDTH / 2, to_y - _TIP
    path = f"M{x:g} {y:g}v{_DOWN / 2:g}H{to_x:g}V{to_y:g}"
    return _draw_arrow(path, f"M{to_x - 4:g} {to_y:g}h8l-4 {_TIP}z")


def _draw_arrow(path: str, tip: str) -> str:
    return format_element("path", class_="edge", d=path) + format_element(
        "path", class_="tip", d=tip
    )


#: Entities for characters that have a meaning in a quoted Mermaid label and must be escaped.
_ENTITIES = {ord(letter): f"#{ord(letter)};" for letter in '#;"<>&`\\{}[]|'}


def export_mermaid(source: ExportSource) -> Iterator[str]:
    """Yield a Mermaid flowchart of the stages at the end of the source, line by line."""
    state = source.state()
    yield "flowchart TD\n"
    for stage in state.stages.values():
        status, label = stage.status.value, f"{_escape_text(stage.id)} {_escape_text(stage.name)}"
        yield f'    {_node_name(stage.id)}["{label}<br/>{status}"]:::{status}\n'
    for stage in state.stages.values():
        for needed in stage.depends_on:
            yield f"    {_node_name(needed)} --> {_node_name(stage.id)}\n"
    for status in Status:
        color = svg.get_light_color(status.value)
        yield f"    classDef {status.value} fill:#ffffff,stroke:{color},color:{color}\n"


def _node_name(stage: str) -> str:
    """Return a name for the stage that Mermaid accepts.

    Mermaid has reserved words and does not allow hyphens in names.
    """
    if stage_number(stage) is not None:
        return stage.replace("-", "_")
    plain = re.sub(r"[^A-Za-wyz0-9-]", lambda found: f"x{ord(found[0]):x}", stage)
    return f"s_{plain.replace('-', '_')}"


def _escape_text(text: str) -> str:
    return collapse_whitespace(text).translate(_ENTITIES)
