"""The rules of loops: which points a further round may compute, and who stops a loop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from lifecycle.errors import NeedsConsent, OutsideEnvelope, Refused, UnknownLoop
from lifecycle.fold.rounds import is_from_its_source
from lifecycle.payload import models as p
from lifecycle.state.effort import cost_problems, of_a_round, used
from lifecycle.state.loops import LoopState
from lifecycle.state.workflow import Workflow
from lifecycle.sweeps.definition import MAP
from lifecycle.words.rounds import LoopDefinition, envelope_of, outside_of

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload

Decision: TypeAlias = "list[Payload]"


def begin(state: Workflow, command: p.RoundBegun) -> Decision:
    """A further round of a loop whose last one has ended, for points within its envelope."""
    loop, standing = _known(state, command.loop)
    _due(state, command, standing)
    _from_its_source(state, loop, command)
    wrong = [*problems_of(state, loop, standing, command.points)]
    if wrong:
        raise OutsideEnvelope(loop.name, standing.round.number + 1, wrong)
    return [command.model_copy(update={"round": standing.round.number + 1})]


def stop(state: Workflow, command: p.LoopStopped) -> Decision:
    """No further round begins; what is under way is computed to its end."""
    _, standing = _known(state, command.loop)
    if standing.over is not None or standing.stopped is not None:
        why = standing.over or f"stopped: {standing.stopped}"
        raise Refused(f"{command.loop} is over already: {why}.", loop=command.loop)
    return [command]


def _known(state: Workflow, name: str) -> tuple[LoopDefinition, LoopState]:
    standing = state.loops.get(name)
    if standing is None:
        raise UnknownLoop(name, list(state.loops))
    return state.loop(name), standing


def _due(state: Workflow, command: p.RoundBegun, standing: LoopState) -> None:
    waiting = [amendment.id for amendment in state.pending_amendments]
    if waiting:
        raise NeedsConsent(
            f"no round of {command.loop} begins while {', '.join(waiting)} waits for a decision.",
            loop=command.loop,
            amendments=waiting,
        )
    number = standing.round.number
    if command.round not in (None, number + 1):
        raise Refused(
            f"round {command.round} of {command.loop} does not follow: the last one is {number}.",
            loop=command.loop,
            round=number,
        )
    if standing.over is not None:
        raise Refused(f"{command.loop} is over: {standing.over}.", loop=command.loop)
    if standing.round.ended_at is None:
        open_ = [id_ for id_ in standing.stages if state.stages[id_].completed_at is None]
        raise Refused(
            f"round {number} of {command.loop} has not ended: {', '.join(open_) or 'it goes on'}.",
            loop=command.loop,
            round=number,
        )


def _from_its_source(state: Workflow, loop: LoopDefinition, command: p.RoundBegun) -> None:
    """Refuse points that are not those which the loop asks for: of a stage, its verified output."""
    if not is_from_its_source(state, loop, {"source": command.source, "data": command.data}):
        raise Refused(
            f"{loop.name} takes its points from {loop.ask} as {loop.asked} left it, and from "
            f"nobody else; found {command.source or 'points of somebody'}.",
            loop=loop.name,
            source=command.source,
        )


def points_before(
    state: Workflow, loop: LoopDefinition, standing: LoopState
) -> list[dict[str, Any]]:
    """Return the points of all rounds so far, those of the map first."""
    from lifecycle.sweeps.points import points  # it loads readers of files

    first = points(state.stages[loop.points].parameters[MAP])
    return [*(dict(one.values) for one in first), *standing.added]


def problems_of(
    state: Workflow, loop: LoopDefinition, standing: LoopState, asked: list[dict[str, Any]]
) -> Iterator[str]:
    """Say what keeps points from being those of the next round."""
    if not asked:
        yield "it has no points; expected at least one"
        return
    if loop.each is not None and len(asked) > loop.each:
        yield f"it has {len(asked)} points; expected {loop.each} at most"
    unfit = [(n, why) for n, point in enumerate(asked, 1) for why in outside_of(loop, point)]
    yield from (f"point {number}: {why}" for number, why in unfit)
    if not unfit:
        yield from twice(state, loop, standing, asked)
    envelope = envelope_of(loop)
    so_far = used(state, envelope.name)
    yield from cost_problems(envelope, so_far, *of_a_round(state, loop, len(asked)))


def twice(
    state: Workflow, loop: LoopDefinition, standing: LoopState, asked: list[dict[str, Any]]
) -> Iterator[str]:
    """Say which points are one, or cannot stand beside those of the map and of earlier rounds."""
    from lifecycle.sweeps.points import UnusableMap, points

    options = {k: v for k, v in state.stages[loop.points].parameters[MAP].items() if k == "folders"}
    so_far = ""
    try:
        before = points_before(state, loop, standing)
        so_far = f" (the first {len(before)} are those so far)"
        points({"points": [*before, *asked], **options})
    except UnusableMap as error:
        yield f"{error}{so_far}"
