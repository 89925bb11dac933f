"""Where the stages stand in a picture: in layers, each below all that it depends on.

Source of the method: Sugiyama, Tagawa and Toda (1981): layers by longest path, places in a layer
by the mean place of the neighbours, long edges led through every layer between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

#: Sweeps down and up; a stage graph settles in two or three.
_SWEEPS = 4

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Layout:
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
    layers = _layers(known)
    rows, paths = _rows(known, layers)
    _settle(rows, _links(paths))
    width = max((len(row) for row in rows), default=0)
    places = {
        name: (x + (width - len(row)) / 2, float(y))
        for y, row in enumerate(rows)
        for x, name in enumerate(row)
    }
    edges = {edge: [places[name] for name in path] for edge, path in paths.items()}
    return Layout({node: places[node] for node in known}, edges, width, len(rows))


def _layers(needs: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Return the length of the longest way to each node."""
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


def _links(paths: Mapping[tuple[str, str], Sequence[str]]) -> dict[str, list[str]]:
    links: dict[str, list[str]] = {}
    for path in paths.values():
        for one, other in pairwise(path):
            links.setdefault(one, []).append(other)
            links.setdefault(other, []).append(one)
    return links


def _settle(rows: list[list[str]], links: Mapping[str, Sequence[str]]) -> None:
    """Order each row by the mean place of its neighbours in the row before it."""
    for sweep in range(_SWEEPS):
        order = range(1, len(rows)) if sweep % 2 == 0 else range(len(rows) - 2, -1, -1)
        for y in order:
            before = rows[y - 1] if sweep % 2 == 0 else rows[y + 1]
            places = {name: _centred(x, before) for x, name in enumerate(before)}
            means = {
                name: _mean([places[n] for n in links.get(name, ()) if n in places], x, rows[y])
                for x, name in enumerate(rows[y])
            }
            rows[y].sort(key=means.__getitem__)


def _centred(x: int, row: Sequence[str]) -> float:
    return x - (len(row) - 1) / 2


def _mean(places: Sequence[float], x: int, row: Sequence[str]) -> float:
    return sum(places) / len(places) if places else _centred(x, row)
