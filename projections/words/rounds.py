"""Describe optimization loops: progress, best value, and data for new proposals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lifecycle.fold.rounds import better_direction, list_loop_points, list_valid_rounds
from lifecycle.state.loops import LoopState, Round
from lifecycle.state.workflow import Attempt, Workflow
from lifecycle.sweeps.definition import points_table_path, task_table_paths
from lifecycle.words.mandates import format_count
from lifecycle.words.rounds import LoopDefinition
from projections.words.format_numbers import format_quantity
from projections.words.mandates import describe_range
from projections.words.text import name_approver, spell_unseen


@dataclass(frozen=True, slots=True)
class LoopProgress:
    """An optimization loop: its definition and its current state.

    ``last`` is the value of its metric in the last round. ``best`` is the best value so far, or
    None if the loop does not define whether lower or higher is better.
    """

    loop: LoopDefinition
    state: LoopState
    best: str | None
    last: str | None
    tasks: int

    def to_dict(self) -> dict[str, Any]:
        """Return the loop and its state as JSON values."""
        last = self.state.round
        return {
            "loop": self.loop.name,
            "stages": list(self.loop.stages),
            "round": last.number,
            "at_most": self.loop.at_most,
            "waits_for": "points" if self.state.is_due else None,
            "ask": self.loop.ask,
            "over": self.state.over,
            "best": self.best,
            "last": self.last,
            "points": self.tasks,
            "until": [str(one) for one in self.loop.until],
        }

    def __str__(self) -> str:
        last, loop = self.state.round, self.loop
        parts = [f"{loop.name}: round {last.number} of at most {loop.at_most}"]
        number = f"best {self.best}" if self.best else self.last
        parts += [number] if number else []
        parts.append(f"{format_count(self.tasks, 'point')} so far")
        if self.state.over is not None:
            parts.append(f"over ({self.state.over})")
        elif self.state.is_due:
            parts.append(f"waits for the points of round {last.number + 1} from {loop.ask}")
        return ", ".join(parts)


def list_loop_progress(state: Workflow) -> list[LoopProgress]:
    """Return all optimization loops of a workflow with their current state."""
    return [get_loop_progress(state, name) for name in state.loops]


def get_loop_progress(state: Workflow, name: str) -> LoopProgress:
    """Return a loop with its current state. Raises KeyError for an unknown name."""
    loop, standing = state.loop(name), state.loops[name]
    best, last = _best_and_last(state, loop, standing) if loop.until else (None, None)
    return LoopProgress(loop, standing, best, last, len(list_loop_points(state, loop, standing)))


def _best_and_last(
    state: Workflow, loop: LoopDefinition, standing: LoopState
) -> tuple[str | None, str | None]:
    until = loop.until[0]
    counting = list_valid_rounds(state, standing)
    found = [one.numbers[until.metric] for one in counting if until.metric in one.numbers]
    told = [f"{until.metric} = {format_round_metric(one)}" for one in found]
    last = told[-1] if told else None
    better = until.better or better_direction(state, until.metric)
    if not better or not found:
        return None, last
    choose = max if better == "higher" else min
    return told[choose(range(len(found)), key=lambda n: float(found[n]["value"]))], last


def format_round_metric(number: dict[str, Any]) -> str:
    """Return a metric of a round with its error and unit, such as ``4.31 ± 0.05 nm``."""
    return format_quantity(number["value"], number.get("error"), number.get("unit"))


def _round_told(one: Round) -> dict[str, Any]:
    names = ("points", "by", "source", "reason", "data", "began_at", "ended_at", "numbers")
    return {"round": one.number, **{name: getattr(one, name) for name in names}}


RoundRow = tuple[str, str, str, str]
"""The texts of a round: its number, its points, their proposer, and its results."""


def points_of_round(state: Workflow, name: str, number: int) -> list[dict[str, Any]]:
    """Return the points (sets of parameter values) that a round of a loop added.

    The first round has the points that the plan lists.
    """
    standing = state.loops[name]
    if number > 1:
        return standing.rounds[number - 1].points
    every = list_loop_points(state, state.loop(name), standing)
    return every[: len(every) - len(standing.points_from_rounds)]


def attempts_of_round(state: Workflow, name: str, number: int) -> list[Attempt]:
    """Return the attempts of a loop's stages in one of its rounds."""
    stages = [state.stages[id_] for id_ in state.loops[name].stages]
    return [one for stage in stages for one in stage.attempts if one.round == number]


def round_rows(state: Workflow, name: str) -> list[RoundRow]:
    """Return a table row for each round of a loop: number, points, source and metrics."""
    rows, counting = [], list_valid_rounds(state, state.loops[name])
    for one in state.loops[name].rounds:
        count = format_count(len(one.points), "point") if one.points else "the points of the map"
        numbers = ", ".join(
            f"{key} = {format_round_metric(found)}" for key, found in one.numbers.items()
        )
        numbers += "" if one in counting else ", by an earlier definition"
        by = one.source or one.by or ""
        rows.append((str(one.number), count, by, numbers or ("" if one.ended_at else "under way")))
    return rows


def origin_told(found: dict[str, Any]) -> Iterator[str]:
    """Yield lines that explain where a task's point (set of parameter values) came from."""
    name, proposed = found["loop"], found["proposed"]
    of = f"a point of round {found['round']} of {name}" if name else "a point of the map"
    why = f" ({found['why']})" if found["why"] else ""
    yield f"{found['task']} of {found['stage']} is {found['state']}{why}: {of}"
    if proposed is None:
        agreed = _agreed_told(found["agreed"], "lists it since")
        yield f"  map       {found['map']}.parameters.map {agreed}"
    else:
        yield from _proposed_told(proposed)
    if name:
        yield from _envelope_told(found["envelope"])


def _envelope_told(envelope: dict[str, Any]) -> Iterator[str]:
    bounds = [f"{key} {describe_range(one)}" for key, one in envelope["within"].items()]
    for key, of in (("each", "points a round"), ("at_most", "rounds"), ("tasks", "tasks")):
        bounds += [f"at most {envelope[key]} {of}"] if envelope[key] is not None else []
    hours = envelope["core_hours"]
    bounds += [f"at most {hours:g} core hours"] if hours is not None else []
    yield f"  envelope  {'; '.join(bounds)}; {_agreed_told(envelope['agreed'])}"


def _proposed_told(proposed: dict[str, Any]) -> Iterator[str]:
    of = f" in {proposed['source']} {proposed['sha256']}" if proposed["source"] else ""
    yield f"  proposed  by {spell_unseen(proposed['by'])}{of}"
    yield f"  event     v{proposed['version']} {proposed['at']} ({spell_unseen(proposed['actor'])})"
    yield from [f"  reason    {proposed['reason']}"] if proposed["reason"] else []
    of = f" by {proposed['attempt']}" if proposed["attempt"] else ""
    yield from (f"  read{of}  {path} {digest}" for path, digest in proposed["read"].items())


def _agreed_told(agreed: dict[str, Any], since: str = "unchanged since") -> str:
    since = f"{since} v{agreed['version']}"
    if agreed["by"] is None:
        return f"{since}; nobody approved it (consent by {agreed['policy']})"
    who = name_approver(agreed["by"], agreed["database_user"])
    by = f"approved by {spell_unseen(str(who))} ({agreed['policy']})"
    return f"{since}; {by}, {agreed['amendment']}"


def collect_proposal_data(state: Workflow, name: str) -> dict[str, Any]:
    """Return the data that is needed to propose the next points of an optimization loop.

    Raises KeyError for an unknown loop.
    """
    loop, standing = state.loop(name), state.loops[name]
    as_csv, as_json = task_table_paths(loop.points)
    counting = list_valid_rounds(state, standing)
    has_means = state.stages[loop.points].work.replicates > 1
    return {
        **get_loop_progress(state, name).to_dict(),
        "asks_for": standing.round.number + 1 if standing.is_due else None,
        "within": dict(loop.within),
        "each": loop.each,
        "table": as_csv,
        "table_json": as_json,
        **({"table_of_means": points_table_path(loop.points)} if has_means else {}),
        "points_so_far": list_loop_points(state, loop, standing),
        "rounds": [{**_round_told(one), "counts": one in counting} for one in standing.rounds],
    }
