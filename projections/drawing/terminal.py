"""The graph of the stages in the letters of a terminal, each stage with its status."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import NamedTuple

from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage, Workflow
from projections.drawing.svg import Layout, columns, layout, shortened

#: Columns that a stage needs at least; in a narrower window the stages are listed.
_LEAST, _MOST = 16, 34
_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8
#: The directions that meet in a place → the letter that joins them.
_JOINTS = {
    _UP: "│", _DOWN: "│", _UP | _DOWN: "│", _LEFT: "─", _RIGHT: "─", _LEFT | _RIGHT: "─",
    _UP | _RIGHT: "╰", _UP | _LEFT: "╯", _DOWN | _RIGHT: "╭", _DOWN | _LEFT: "╮",
    _UP | _DOWN | _RIGHT: "├", _UP | _DOWN | _LEFT: "┤", _LEFT | _RIGHT | _DOWN: "┬",
    _LEFT | _RIGHT | _UP: "┴", _UP | _DOWN | _LEFT | _RIGHT: "┼",
}  # fmt: skip
SIGNS = {
    Status.PENDING: "·",
    Status.READY: "○",
    Status.PREPARING: "◐",
    Status.RUNNING: "▶",
    Status.POST_PROCESSING: "◑",
    Status.COMPLETED: "✓",
    Status.FAILED: "✗",
    Status.INVALIDATED: "↺",
    Status.SKIPPED: "»",
}


class Part(NamedTuple):
    """A piece of a line; ``status`` says in which colour, None for lines between."""

    text: str
    status: Status | None = None


#: The directions that meet in a place, by row and column.
_Canvas = Counter[tuple[int, int]]


def drawn(state: Workflow, width: int) -> list[list[Part]]:
    """Return the lines of the graph, at most ``width`` columns each."""
    places = layout({stage.id: stage.depends_on for stage in state.stages.values()})
    cell = min(_MOST, width // max(places.width, 1))
    if cell < _LEAST:
        return _listed(state, places, width)
    canvas = _edges(places, cell)
    lines: list[list[Part]] = []
    for layer in range(places.height):
        lines.append(_row(state, places, layer, cell, canvas))
        if layer + 1 < places.height:
            lines.append([Part(_line(canvas, 2 * layer + 1, width))])
    return lines


def _line(canvas: _Canvas, row: int, width: int) -> str:
    letters = (canvas[row, column] for column in range(width))
    return "".join(_JOINTS.get(joint, " ") for joint in letters).rstrip()


def _row(state: Workflow, places: Layout, layer: int, cell: int, canvas: _Canvas) -> list[Part]:
    """Return the line of a layer: its stages, and the edges that pass between them."""
    here = sorted((x, id_) for id_, (x, y) in places.nodes.items() if y == layer)
    passing = _line(canvas, 2 * layer, places.width * cell)
    parts, end = [], 0
    for x, id_ in here:
        shown = _label(state.stages[id_], cell - 2)
        start = max(end, _centre(x, cell) - columns(shown) // 2)
        between = passing[end:start].ljust(start - end)
        parts += [Part(between), Part(shown, state.stages[id_].status)]
        end = start + columns(shown)
    return [*parts, Part(passing[end:])]


def _label(stage: Stage, width: int) -> str:
    return shortened(f"{SIGNS[stage.status]} {stage.id} {stage.name}", width)


def _centre(x: float, cell: int) -> int:
    return round(x * cell + cell / 2)


def _edges(places: Layout, cell: int) -> _Canvas:
    """Lead each edge down through the lines between the layers, and past the stages of others."""
    canvas = _Canvas()
    for path in places.edges.values():
        for (x, y), (to_x, _) in pairwise(path):
            row, start, end = 2 * int(y) + 1, _centre(x, cell), _centre(to_x, cell)
            canvas[row, start] |= _UP
            canvas[row, end] |= _DOWN
            for column in range(min(start, end), max(start, end)):
                canvas[row, column] |= _RIGHT
                canvas[row, column + 1] |= _LEFT
        for x, y in path[1:-1]:
            canvas[2 * int(y), _centre(x, cell)] |= _UP | _DOWN
    return canvas


def _listed(state: Workflow, places: Layout, width: int) -> list[list[Part]]:
    """Return the stages from top to bottom, each with what it needs."""
    order = sorted(places.nodes, key=lambda id_: places.nodes[id_][::-1])
    lines = []
    for stage in (state.stages[id_] for id_ in order):
        needs = f"  ← {', '.join(stage.depends_on)}" if stage.depends_on else ""
        label = _label(stage, width)
        rest = max(width - columns(label), 0)
        lines.append([Part(label, stage.status), Part(shortened(needs, rest) if rest > 4 else "")])
    return lines
