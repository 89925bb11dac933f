"""Loops in the graph of a plan: their stages, the points of the first round, their criterion."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lifecycle.sweeps.points import UnusableMap, points
from lifecycle.words.mandates import limits_known
from lifecycle.words.metrics import metrics_of
from lifecycle.words.rounds import (
    AGENT,
    ROUNDS,
    LoopDefinition,
    Until,
    envelope_of,
    loop_of,
    misshapen_loop,
    outside_of,
)


def loop_problems(given: Any, stages: Iterable[Any]) -> Iterator[str]:
    """Say what is wrong with the loops of a definition, whose stages are ``stages``."""
    if not isinstance(given, dict):
        yield f"{ROUNDS}: expected an object of names and loops, found {given!r:.80}"
        return
    known = {stage.id: stage for stage in stages}
    of: dict[str, str] = {}
    for name, one in given.items():
        wrong = [*misshapen_loop(name, one)]
        yield from (f"{ROUNDS}.{name}{problem}" for problem in wrong)
        if wrong:
            continue
        loop = loop_of(name, one)
        for problem in _in_the_graph(loop, known):
            yield f"{ROUNDS}.{name}.{problem}"
        for id_ in loop.stages:
            if of.setdefault(id_, name) != name:
                yield f"{ROUNDS}.{name}.stages: {id_} is in {of[id_]} already"


def _in_the_graph(loop: LoopDefinition, known: Mapping[str, Any]) -> Iterator[str]:
    missing = [id_ for id_ in loop.stages if id_ not in known]
    yield from (f"stages: no stage {id_!r}" for id_ in missing)
    if missing:
        return
    yield from limits_known(envelope_of(loop), known)
    yield from _of_shape(loop, known)
    yield from _of_points(loop, known)
    if not loop.asks_somebody and (
        loop.asked not in loop.stages or loop.ask not in known[loop.asked].outputs
    ):
        yield (
            f"ask: expected an output of one of its stages, such as {loop.stages[-1]}/next.csv, or "
            f"{AGENT}; found {loop.ask!r}"
        )
    for one in loop.until:
        yield from _of_metric(one, loop, known)


def _of_shape(loop: LoopDefinition, known: Mapping[str, Any]) -> Iterator[str]:
    """Say which stage lies between those of a loop, and which does not belong to the others."""
    own = set(loop.stages)
    above = {id_: _all_above(id_, known) for id_ in known}
    for id_, needs in above.items():
        if id_ not in own and needs & own and any(id_ in above[one] for one in own):
            yield f"stages: {id_} lies between its stages; it belongs to the loop too"
    reached, queue = {loop.stages[0]}, [loop.stages[0]]
    while queue:
        here = queue.pop()
        near = {*known[here].depends_on} | {i for i in own if here in known[i].depends_on}
        queue += (near & own) - reached
        reached |= near & own
    for id_ in sorted(own - reached):
        yield f"stages: {id_} is not connected with {loop.stages[0]}"


def _all_above(id_: str, known: Mapping[str, Any]) -> set[str]:
    found: set[str] = set()
    queue = [id_]
    while queue:
        new = {one for one in known[queue.pop()].depends_on if one in known} - found
        found |= new
        queue += new
    return found


def _of_points(loop: LoopDefinition, known: Mapping[str, Any]) -> Iterator[str]:
    given = known[loop.points].parameters.get("map") if loop.points in loop.stages else None
    if not isinstance(given, dict) or not {"points", "grid", "zip"} & set(given):
        yield (
            f"points: expected one of its stages with a map of points, grid or zip, found "
            f"{loop.points!r}"
        )
        return
    try:
        first = points(given)
    except UnusableMap:
        return  # told of the map itself
    if {*loop.within} != {*first[0].values}:
        names = ", ".join(first[0].values)
        yield f"within: expected bounds for {names}, found {', '.join(loop.within)}"
        return
    for point in first:
        yield from (f"within: the first points: {why}" for why in outside_of(loop, point.values))


def _of_metric(until: Until, loop: LoopDefinition, known: Mapping[str, Any]) -> Iterator[str]:
    stage, _, name = until.metric.rpartition(".")
    metrics = metrics_of(known[stage].parameters) if stage in loop.stages else {}
    metric = metrics.get(name)
    if metric is None:
        yield (
            f"until: no stage of the loop has the number {until.metric!r}; expected one of its "
            "parameters.metrics, such as stage-2.error"
        )
        return
    if until.test == "relative_error" and not metric.error:
        yield f"until: {until.metric} has no error to be compared with"
    if until.test == "no_better" and not (until.better or metric.better):
        yield f"until: expected `better` (lower or higher) beside {until.metric}"
    if isinstance(known[stage].parameters.get("map"), dict) and not metric.better:
        yield f"until: {until.metric} is a number of each task; expected `better` beside it"
