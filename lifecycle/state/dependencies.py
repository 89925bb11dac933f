"""The graph of stages: cycles, what is held back by what, what lies downstream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

Graph = Mapping[str, Sequence[str]]
"""Stage id → the ids it depends on."""


def find_cycle(graph: Graph) -> list[str] | None:
    """Return one cycle as ``[a, b, …, a]``, or None. Unknown ids are passed over."""
    done: set[str] = set()
    for start in graph:
        cycle = _cycle_from(start, graph, done)
        if cycle:
            return cycle
    return None


def _cycle_from(start: str, graph: Graph, done: set[str]) -> list[str] | None:
    path: list[str] = []
    stack: list[tuple[str, bool]] = [(start, False)]
    while stack:
        node, leaving = stack.pop()
        if leaving:
            done.add(path.pop())
        elif node in path:
            return [*path[path.index(node) :], node]
        elif node in graph and node not in done:
            path.append(node)
            stack.append((node, True))
            stack.extend((dep, False) for dep in reversed(graph[node]))
    return None


def downstream(graph: Graph, roots: Iterable[str]) -> set[str]:
    """Return every stage that depends, directly or not, on one of ``roots`` (roots left out)."""
    dependents: dict[str, list[str]] = {}
    for stage, needs in graph.items():
        for need in needs:
            dependents.setdefault(need, []).append(stage)
    found: set[str] = set()
    queue = list(roots)
    while queue:
        for stage in dependents.get(queue.pop(), ()):
            if stage not in found:
                found.add(stage)
                queue.append(stage)
    return found


def upstream(graph: Graph, stages: Iterable[str]) -> set[str]:
    """Return every stage on which one of ``stages`` depends, directly or not."""
    found: set[str] = set()
    queue = list(stages)
    while queue:
        for need in graph.get(queue.pop(), ()):
            if need not in found:
                found.add(need)
                queue.append(need)
    return found
