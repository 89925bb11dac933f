"""Arrange the stages of a workflow in layers for a picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

from projections.drawing.svg import Point

#: Number of passes that order the nodes of a graph, alternately downwards and upwards. Workflow
#: graphs need only two or three.
_SWEEPS = 4


class Layout(NamedTuple):
    """The positions of the nodes and edges of a graph, in units of one node.

    x starts at 0 on the left, and y is the layer, starting at 0. Each edge leads from a dependency
    to the node that depends on it, through points in the layers between them.
    """

    nodes: dict[str, Point]
    edges: dict[tuple[str, str], list[Point]]
    width: int
    height: int


def compute_layout(needs: Mapping[str, Sequence[str]]) -> Layout:
    """Return a drawing layout for an acyclic graph, given as node → its dependencies.

    The same graph always has the same layout. Dependencies on unknown nodes are ignored.
    """
    known = {node: [d for d in deps if d in needs] for node, deps in needs.items()}
    layers = layers_of(known)
    rows, paths = _build_rows(known, layers)
    _sort_rows(rows, paths.values())
    width = max((len(row) for row in rows), default=0)
    places = {
        name: (x + (width - len(row)) / 2, float(y))
        for y, row in enumerate(rows)
        for x, name in enumerate(row)
    }
    edges = {edge: [places[name] for name in path] for edge, path in paths.items()}
    return Layout({node: places[node] for node in known}, edges, width, len(rows))


def layers_of(needs: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Return the layer of each node: the length of the longest path that leads to it.

    The graph is given as node → its dependencies, and must be acyclic.
    """
    found: dict[str, int] = {}
    waiting = list(needs)
    while waiting:
        ready = [node for node in waiting if all(dep in found for dep in needs[node])]
        for node in ready:
            found[node] = 1 + max((found[dep] for dep in needs[node]), default=-1)
        # If the graph has a cycle, its nodes never get a layer in this way. Place them below all
        # others, so that the loop ends.
        stuck = () if ready else waiting
        found.update((node, len(found)) for node in stuck)
        waiting = [node for node in waiting if node not in found]
    return found


def _build_rows(
    needs: Mapping[str, Sequence[str]], layers: Mapping[str, int]
) -> tuple[list[list[str]], dict[tuple[str, str], list[str]]]:
    """Return the names of the nodes in each layer, and the path of each edge.

    An edge that spans several layers gets a placeholder node in each layer between.
    """
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


def _sort_rows(rows: list[list[str]], paths: Iterable[Sequence[str]]) -> None:
    """Sort each row of nodes by the mean position of their neighbours in the adjacent row.

    This reduces the number of crossing edges.
    """
    links: dict[str, list[str]] = {}
    for one, other in chain.from_iterable(map(pairwise, paths)):
        links.setdefault(one, []).append(other)
        links.setdefault(other, []).append(one)
    for sweep in range(_SWEEPS):
        order = range(1, len(rows)) if sweep % 2 == 0 else range(len(rows) - 2, -1, -1)
        for y in order:
            before = rows[y - 1] if sweep % 2 == 0 else rows[y + 1]
            places, means = _center_row(before), _center_row(rows[y])
            for name in rows[y]:
                near = [places[one] for one in links.get(name, ()) if one in places]
                means[name] = sum(near) / len(near) if near else means[name]
            rows[y].sort(key=means.__getitem__)


def _center_row(row: Sequence[str]) -> dict[str, float]:
    return {name: x - (len(row) - 1) / 2 for x, name in enumerate(row)}
