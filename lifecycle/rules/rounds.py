"""The rules of loops: the points that a new round may compute, and when a loop may be stopped."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from lifecycle.errors import NeedsConsent, OutsideEnvelope, Refused, UnknownLoop
from lifecycle.fold.rounds import (
    find_new_point_problems,
    is_round_from_loop_source,
    list_loop_points,
    list_optional_values,
)
from lifecycle.payload import models as p
from lifecycle.state.effort import (
    compute_mandate_use,
    compute_round_cost,
    find_exceeded_mandate_limits,
)
from lifecycle.state.loops import LoopState
from lifecycle.state.workflow import Workflow
from lifecycle.words.mandates import format_count
from lifecycle.words.rounds import (
    LoopDefinition,
    find_values_outside_envelope,
    loop_limits_as_mandate,
)

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload

Decision: TypeAlias = "list[Payload]"


def decide_round_start(state: Workflow, command: p.RoundBegun) -> Decision:
    """Return the event that starts the next round of a loop.

    Raises an error unless the next round may start now, and `OutsideEnvelope` if the points exceed
    the limits of the loop.
    """
    loop, standing = _get_loop(state, command.loop)
    _require_round_due(state, command, standing)
    _require_points_from_source(state, loop, command)
    wrong = [*find_point_problems(state, loop, standing, command.points)]
    if wrong:
        raise OutsideEnvelope(loop.name, standing.round.number + 1, wrong)
    return [command.model_copy(update={"round": standing.round.number + 1})]


def decide_loop_stop(state: Workflow, command: p.LoopStopped) -> Decision:
    """Return the event that stops a loop. No further round starts; running jobs continue.

    Raises `Refused` if the loop has already ended.
    """
    _, standing = _get_loop(state, command.loop)
    if standing.over is not None or standing.stopped is not None:
        why = standing.over or f"stopped: {standing.stopped}"
        raise Refused(f"{command.loop} has already ended: {why}.", loop=command.loop)
    return [command]


def _get_loop(state: Workflow, name: str) -> tuple[LoopDefinition, LoopState]:
    """Return the definition and the current state of a loop. Raises `UnknownLoop`."""
    standing = state.loops.get(name)
    if standing is None:
        raise UnknownLoop(name, list(state.loops))
    return state.loop(name), standing


def _require_round_due(state: Workflow, command: p.RoundBegun, standing: LoopState) -> None:
    """Raise `Refused` or `NeedsConsent` unless the next round of the loop may start."""
    waiting = [amendment.id for amendment in state.pending_amendments]
    if waiting:
        raise NeedsConsent(
            f"no round of the loop {command.loop} can start while {', '.join(waiting)} waits for "
            "a decision. A person must approve or reject the change first.",
            loop=command.loop,
            amendments=waiting,
        )
    number = standing.round.number
    if command.round not in (None, number + 1):
        raise Refused(
            (
                f"round {command.round} of the loop {command.loop} cannot start, because the last "
                f"round is round {number}. The next round must be round {number + 1}."
            ),
            loop=command.loop,
            round=number,
        )
    if standing.over is not None:
        raise Refused(f"{command.loop} has ended: {standing.over}.", loop=command.loop)
    if standing.round.ended_at is None:
        open_ = [id_ for id_ in standing.stages if state.stages[id_].completed_at is None]
        rest = f"unfinished stages: {', '.join(open_)}" if open_ else "the round is running"
        raise Refused(
            f"the next round cannot start, because round {number} of the loop {command.loop} has "
            f"not ended ({rest}).",
            loop=command.loop,
            round=number,
        )


def _require_points_from_source(
    state: Workflow, loop: LoopDefinition, command: p.RoundBegun
) -> None:
    """Raise `Refused` unless the points come from the source that the plan defines for the loop."""
    if not is_round_from_loop_source(state, loop, {"source": command.source, "data": command.data}):
        raise Refused(
            f"the points come from {command.source or 'another source'}, but the loop {loop.name} "
            f"accepts only points from the file {loop.ask}, as the stage "
            f"{loop.points_source_stage} wrote it.",
            loop=loop.name,
            source=command.source,
        )


def find_point_problems(
    state: Workflow, loop: LoopDefinition, standing: LoopState, asked: list[dict[str, Any]]
) -> Iterator[str]:
    """Yield the reasons why a round of the loop cannot use the given points."""
    if not asked:
        yield "the round has no points; expected at least one point"
        return
    if loop.each is not None and len(asked) > loop.each:
        count = format_count(len(asked), "point")
        yield f"the round has {count}; the loop allows at most {loop.each}"
    optional = list_optional_values(state, loop)
    unfit = [
        (n, why)
        for n, point in enumerate(asked, 1)
        for why in find_values_outside_envelope(loop, point, optional)
    ]
    yield from (f"point {number}: {why}" for number, why in unfit)
    if not unfit:
        repeated = [*find_new_point_problems(state, loop, standing, asked)]
        yield from repeated or _find_points_equal_by_default(state, loop, standing, asked)
    envelope = loop_limits_as_mandate(loop)
    so_far = compute_mandate_use(state, envelope.name)
    yield from find_exceeded_mandate_limits(
        envelope, so_far, *compute_round_cost(state, loop, len(asked))
    )


def _find_points_equal_by_default(
    state: Workflow, loop: LoopDefinition, standing: LoopState, asked: list[dict[str, Any]]
) -> Iterator[str]:
    """Yield a problem for each new point that differs from another point only by a default value.

    The command of a point without a value reads the parameter of the stage with the same name, so
    the same computation would run twice. Recorded rounds may contain such points, because earlier
    versions accepted them.
    """
    from lifecycle.sweeps.points import format_key, identify_values, list_value_names

    before = list_loop_points(state, loop, standing)
    points = [*before, *asked]
    known = state.stages[loop.points].work.command_parameters
    names = [name for name in list_value_names(points) if name in known]
    defaults = {n: known[n] for n in names if isinstance(known[n], str | int | float)}
    numbers: dict[Hashable, int] = {}
    for number, point in enumerate(points, 1):
        first = numbers.setdefault(identify_values({**defaults, **point}), number)
        if first != number > len(before):
            pair = f"{format_key(points[first - 1])} and {format_key(point)}"
            yield (
                f"points {first} and {number} have the same values ({pair}), because the stage "
                f"{loop.points} has the default values {format_key(defaults)} (the first "
                f"{len(before)} are those so far)"
            )
