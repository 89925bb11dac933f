"""Loops in words: where each is, the best so far, and what a proposer is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lifecycle.fold.rounds import better_of
from lifecycle.rules.rounds import points_before
from lifecycle.state.loops import LoopState, Round
from lifecycle.state.workflow import Workflow
from lifecycle.sweeps.definition import table_of
from lifecycle.words.rounds import LoopDefinition
from projections.words.answers import with_error


@dataclass(frozen=True, slots=True)
class LoopTold:
    """A loop as it is defined and as it stands.

    ``last`` is what its metric came to in the last round; ``best`` is the best so far, where it is
    said whether lower or higher is better.
    """

    loop: LoopDefinition
    state: LoopState
    best: str | None
    last: str | None
    tasks: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
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
        parts.append(f"{self.tasks} points so far")
        if self.state.over is not None:
            parts.append(f"over ({self.state.over})")
        elif self.state.is_due:
            parts.append(f"waits for the points of round {last.number + 1} from {loop.ask}")
        return ", ".join(parts)


def loops_told(state: Workflow) -> list[LoopTold]:
    """Return the loops of a workflow as they stand."""
    return [loop_told(state, name) for name in state.loops]


def loop_told(state: Workflow, name: str) -> LoopTold:
    """Return a loop as it stands; raises KeyError."""
    loop, standing = state.loop(name), state.loops[name]
    best, last = _best_and_last(state, loop, standing) if loop.until else (None, None)
    return LoopTold(loop, standing, best, last, len(points_before(state, loop, standing)))


def _best_and_last(
    state: Workflow, loop: LoopDefinition, standing: LoopState
) -> tuple[str | None, str | None]:
    until = loop.until[0]
    found = [one.numbers[until.metric] for one in standing.rounds if until.metric in one.numbers]
    told = [f"{until.metric} = {number_told(one)}" for one in found]
    last = told[-1] if told else None
    better = until.better or better_of(state, until.metric)
    if not better or not found:
        return None, last
    choose = max if better == "higher" else min
    return told[choose(range(len(found)), key=lambda n: float(found[n]["value"]))], last


def number_told(number: dict[str, Any]) -> str:
    """Return a number of a round with its error and its unit: ``4.31 ± 0.05 nm``."""
    unit = f" {number['unit']}" if number.get("unit") else ""
    return f"{with_error(number['value'], number.get('error'))}{unit}"


def round_told(one: Round) -> dict[str, Any]:
    """Return a round as plain JSON values."""
    return {
        "round": one.number,
        "points": one.points,
        "by": one.by,
        "source": one.source,
        "reason": one.reason,
        "data": one.data,
        "began_at": one.began_at,
        "ended_at": one.ended_at,
        "numbers": one.numbers,
    }


RoundRow = tuple[str, str, str, str]
"""A round in words: its number, its points, their proposer, and the numbers that it came to."""


def round_rows(state: Workflow, name: str) -> list[RoundRow]:
    """Return a row for each round of a loop."""
    rows = []
    for one in state.loops[name].rounds:
        count = f"{len(one.points)} points" if one.points else "the points of the map"
        numbers = ", ".join(f"{key} = {number_told(found)}" for key, found in one.numbers.items())
        by = one.source or one.by or ""
        rows.append((str(one.number), count, by, numbers or ("" if one.ended_at else "under way")))
    return rows


def asked_of(state: Workflow, name: str) -> dict[str, Any]:
    """Return what a proposer of a loop's next points is given; raises KeyError."""
    loop, standing = state.loop(name), state.loops[name]
    as_csv, as_json = table_of(loop.points)
    return {
        **loop_told(state, name).to_dict(),
        "asks_for": standing.round.number + 1 if standing.is_due else None,
        "within": dict(loop.within),
        "each": loop.each,
        "table": as_csv,
        "table_json": as_json,
        "points_so_far": points_before(state, loop, standing),
        "rounds": [round_told(one) for one in standing.rounds],
    }
