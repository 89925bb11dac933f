"""How far the loops of a workflow are: their rounds, and why they ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Round:
    """One round of a loop: the points that it added, who proposed them, and what it came to.

    The points of the first one are those of the map, and stand there. ``numbers``: ``stage-2.tc`` →
    its ``value``, ``error`` and ``unit``. ``data``: files that the proposer read or wrote, with
    their SHA-256 in hex.
    """

    number: int
    points: list[dict[str, Any]] = field(default_factory=list)
    by: str | None = None
    reason: str | None = None
    source: str | None = None
    data: dict[str, str] = field(default_factory=dict)
    began_at: str | None = None
    ended_at: str | None = None
    numbers: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: The version of the definition by which it ended; 0 until it has.
    plan: int = 0


@dataclass(slots=True)
class LoopState:
    """How far a loop is: its stages, its rounds so far, and why it is over, if it is.

    ``stopped`` is the reason that somebody gave who stopped it.
    """

    stages: list[str]
    rounds: list[Round] = field(default_factory=lambda: [Round(1)])
    stopped: str | None = None
    over: str | None = None

    @property
    def round(self) -> Round:
        """The newest round."""
        return self.rounds[-1]

    @property
    def is_due(self) -> bool:
        """Whether a further round is to begin: the last one has ended, and not the loop."""
        return self.over is None and self.round.ended_at is not None

    @property
    def added(self) -> list[dict[str, Any]]:
        """The points that rounds added to those of the map, in their order."""
        return [point for one in self.rounds for point in one.points]


def loop_state_of(values: dict[str, Any]) -> LoopState:
    """Return the state of a loop of the values that its JSON holds."""
    return LoopState(**{**values, "rounds": [Round(**one) for one in values["rounds"]]})
