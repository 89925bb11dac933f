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
    """A loop as it is defined and as it stands; ``best`` is the best of its metric so far."""

    loop: LoopDefinition
    state: LoopState
    best: str | None
    tasks: int

    @property
    def metric(self) -> str | None:
        """The number by which it ends, if it has one."""
        return self.loop.until[0].metric if self.loop.until else None

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
            "points": self.tasks,
            "until": [str(one) for one in self.loop.until],
        }

    def __str__(self) -> str:
        last, loop = self.state.round, self.loop
        parts = [f"{loop.name}: round {last.number} of at most {loop.at_most}"]
        parts += [f"best {self.best}"] if self.best else []
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
    metric = loop.until[0].metric if loop.until else None
    found = [one.numbers[metric] for one in standing.rounds if metric and metric in one.numbers]
    better = better_of(state, metric) if metric else ""
    best: dict[str, Any] | None = found[-1] if found else None
    if found and better:
        choose = max if better == "higher" else min
        best = choose(found, key=lambda one: float(one["value"]))
    told = None if best is None else f"{metric} = {number_told(best)}"
    return LoopTold(loop, standing, told, len(points_before(state, loop, standing)))


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
