"""Forecast the effects of an amendment on loops, in rounds, tasks and core hours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from lifecycle.fold.evolve import plan_version_after_approval
from lifecycle.fold.rounds import list_valid_rounds
from lifecycle.state.effort import HOUR, compute_mandate_use, compute_round_cost
from lifecycle.state.workflow import Amendment, Workflow
from lifecycle.words.rounds import loop_limits_as_mandate


@dataclass(frozen=True, slots=True)
class RoundsLeft:
    """The rounds, tasks and core hours that a loop may still use. None means unlimited.

    Retries are not included.
    """

    rounds: int
    tasks: int | None
    core_hours: float | None


@dataclass(frozen=True, slots=True)
class LoopForecast:
    """The effects of an amendment on a loop.

    ``goes_on`` has the remaining rounds if a finished loop continues or if its limits change.
    ``ends`` is the reason why the loop ends. ``round`` is its newest round. ``uncounted`` lists
    rounds whose results become invalid. ``stays_stopped`` is the reason why somebody stopped the
    loop, if new limits or criteria do not restart it.
    """

    loop: str
    round: int
    was_over: bool
    goes_on: RoundsLeft | None = None
    ends: str | None = None
    uncounted: tuple[int, ...] = ()
    stays_stopped: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the forecast as a dictionary of JSON values."""
        left = self.goes_on
        names = ("rounds", "tasks", "core_hours")
        return {
            "round": self.round,
            "was_over": self.was_over,
            "goes_on": None if left is None else {name: getattr(left, name) for name in names},
            "ends": self.ends,
            "stays_stopped": self.stays_stopped,
            "count_no_longer": list(self.uncounted),
        }


def forecast_loops(
    state: Workflow, changed: Workflow, amendment: Amendment, affected: tuple[str, ...]
) -> Iterator[LoopForecast]:
    """Yield a forecast for each loop that the amendment affects.

    ``changed`` is the state with the changed plan. ``affected`` are the affected stages.
    """
    after = changed.draft()
    after.amendments[amendment.id] = replace(
        amendment,
        status="approved",
        version=plan_version_after_approval(state, amendment),
        invalidated_stages=list(affected),
    )
    for name, was in state.loops.items():
        if name not in after.loops:
            continue
        now = after.loops[name]
        counting = {one.number for one in list_valid_rounds(after, now)}
        # The newest round is computed again, and its results then become valid. It is not listed
        # here.
        before = [one for one in list_valid_rounds(state, was) if one.number < was.round.number]
        one = LoopForecast(
            name,
            was.round.number,
            was.over is not None,
            None if now.over or now.stopped else _compute_remaining_rounds(after, name),
            now.over if not was.over else None,
            tuple(one.number for one in before if one.number not in counting),
            now.stopped if state.loop(name) != after.loop(name) else None,
        )
        if not one.was_over and one.goes_on == _compute_remaining_rounds(state, name):
            one = replace(one, goes_on=None)
        if one.goes_on or one.ends or one.uncounted or one.stays_stopped:
            yield one


def _compute_remaining_rounds(state: Workflow, name: str) -> RoundsLeft:
    """Return the rounds, tasks and core hours that the loop may still use.

    The maximum number of rounds is for rounds with one point each.
    """
    loop, standing = state.loop(name), state.loops[name]
    so_far = compute_mandate_use(state, loop_limits_as_mandate(loop).name)
    least, least_seconds = compute_round_cost(state, loop, 1)
    each, each_seconds = compute_round_cost(state, loop, loop.each) if loop.each else (inf, inf)
    rounds = loop.at_most - standing.round.number
    tasks, seconds = inf, inf
    if loop.tasks is not None:
        tasks = loop.tasks - so_far.tasks
        rounds = min(rounds, int(tasks // least))
    if loop.core_hours is not None:
        seconds = loop.core_hours * HOUR - so_far.core_seconds
        rounds = rounds if least_seconds is not None and least_seconds <= seconds else 0
    if rounds < 1:  # the loop may also have used more than new limits allow
        return RoundsLeft(0, 0, 0.0)
    tasks = min(tasks, rounds * each)
    seconds = min(seconds, rounds * (inf if each_seconds is None else each_seconds))
    hours = None if seconds == inf else round(seconds / HOUR, 4)
    return RoundsLeft(rounds, None if tasks == inf else int(tasks), hours)
