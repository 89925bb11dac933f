"""Check the loops of a plan: their stages, first points and stopping criteria."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lifecycle.sweeps.points import UnusableMap
from lifecycle.words.mandates import find_missing_time_limits
from lifecycle.words.metrics import parse_valid_metrics
from lifecycle.words.rounds import (
    AGENT,
    ROUNDS,
    LoopCriterion,
    LoopDefinition,
    build_loop,
    find_malformed_loop_parts,
    find_values_outside_envelope,
    loop_limits_as_mandate,
)


def loop_problems(given: Any, stages: Iterable[Any]) -> Iterator[str]:
    """Yield the problems of the optimization loops in a plan with the given stages."""
    if not isinstance(given, dict):
        yield f"{ROUNDS}: expected an object of names and loops, found {given!r:.80}"
        return
    known = {stage.id: stage for stage in stages}
    of: dict[str, str] = {}
    for name, one in given.items():
        wrong = [*find_malformed_loop_parts(name, one)]
        yield from (f"{ROUNDS}.{name}{problem}" for problem in wrong)
        if wrong:
            continue
        loop = build_loop(name, one)
        for problem in _find_loop_problems(loop, known):
            yield f"{ROUNDS}.{name}.{problem}"
        for id_ in loop.stages:
            if of.setdefault(id_, name) != name:
                yield f"{ROUNDS}.{name}.stages: {id_} already belongs to the loop {of[id_]}"


def _find_loop_problems(loop: LoopDefinition, known: Mapping[str, Any]) -> Iterator[str]:
    """Yield the problems of one optimization loop."""
    missing = [id_ for id_ in loop.stages if id_ not in known]
    yield from (f"stages: no stage {id_!r}" for id_ in missing)
    if missing:
        return
    yield from find_missing_time_limits(loop_limits_as_mandate(loop), known)
    yield from _find_connection_problems(loop, known)
    yield from _find_first_point_problems(loop, known)
    if not loop.has_external_proposer and (
        loop.points_source_stage not in loop.stages
        or loop.ask not in known[loop.points_source_stage].outputs
    ):
        yield (
            f"ask: expected an output of one of its stages, such as {loop.stages[-1]}/next.csv, or "
            f"{AGENT}; found {loop.ask!r}"
        )
    for one in loop.until:
        yield from _find_criterion_problems(one, loop, known)


def _find_connection_problems(loop: LoopDefinition, known: Mapping[str, Any]) -> Iterator[str]:
    """Yield problems of the dependencies between the stages of a loop.

    A stage between two stages of the loop must belong to the loop, and all stages of the loop must
    be connected.
    """
    own = set(loop.stages)
    above = {id_: _find_ancestors(id_, known) for id_ in known}
    for id_, needs in above.items():
        if id_ not in own and needs & own and any(id_ in above[one] for one in own):
            yield f"stages: {id_} lies between stages of the loop, so add {id_} to the loop"
    reached, queue = {loop.stages[0]}, [loop.stages[0]]
    while queue:
        here = queue.pop()
        near = {*known[here].depends_on} | {i for i in own if here in known[i].depends_on}
        queue += (near & own) - reached
        reached |= near & own
    for id_ in sorted(own - reached):
        yield f"stages: {id_} is not connected with {loop.stages[0]}"


def _find_ancestors(id_: str, known: Mapping[str, Any]) -> set[str]:
    """Return all stages on which a stage depends, directly or indirectly."""
    found: set[str] = set()
    queue = [id_]
    while queue:
        new = {one for one in known[queue.pop()].depends_on if one in known} - found
        found |= new
        queue += new
    return found


def _find_first_point_problems(loop: LoopDefinition, known: Mapping[str, Any]) -> Iterator[str]:
    """Yield the problems of the points of a loop's first round, such as points out of bounds."""
    try:
        first = known[loop.points].work.listed_points() if loop.points in loop.stages else ()
    except UnusableMap:
        return  # the check of the map reports this
    if not first:
        yield (
            "points: expected a stage of the loop whose map has points, grid or zip, found "
            f"{loop.points!r}"
        )
        return
    names, work = {*loop.within}, known[loop.points].work
    named = {name for point in first for name in point.values}
    if not named <= names <= named | {*work.parameters}:
        yield f"within: expected bounds for {', '.join(sorted(named))}, found {', '.join(names)}"
        return
    for point in first:
        yield from (
            f"within: the first points: {why}"
            for why in find_values_outside_envelope(loop, point.values, optional=names)
        )


def _find_criterion_problems(
    until: LoopCriterion, loop: LoopDefinition, known: Mapping[str, Any]
) -> Iterator[str]:
    """Yield the reasons why a stopping criterion of a loop cannot be evaluated."""
    stage, _, name = until.metric.rpartition(".")
    metrics = parse_valid_metrics(known[stage].parameters) if stage in loop.stages else {}
    metric = metrics.get(name)
    if metric is None:
        yield (
            f"until: no stage of the loop has the metric {until.metric!r}; name a metric from "
            "parameters.metrics, such as stage-2.error"
        )
        return
    has_error = metric.error or known[stage].work.replicates > 1
    if until.test == "relative_error" and not has_error:
        yield (
            f"until: {until.metric} has no error bar, so wfctl cannot compare the rounds; add "
            "`error` to this metric, or `replicates` to the map of its sweep"
        )
    if until.test == "no_better" and not (until.better or metric.better):
        yield f"until: expected `better` (lower or higher) with {until.metric}"
    if name in known[stage].work.task_metrics and not metric.better:
        yield (
            f"until: {until.metric} has one number for each task; add `better` (lower or "
            "higher) to choose among them"
        )
