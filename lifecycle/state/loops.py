"""The progress of the optimization loops: their rounds, and the reasons why loops ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Round:
    """One round of a loop: its points, the proposer of the points, and its results.

    The points of the first round are in the plan and are not repeated here. ``numbers`` maps the
    name of a metric, such as ``stage-2.tc``, to its ``value``, ``error`` and ``unit``. ``data``
    lists the files that the proposer read or wrote, with their SHA-256 in hex.
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
    #: Version of the plan when the round ended, or 0 before its end.
    plan: int = 0


@dataclass(slots=True)
class LoopState:
    """The progress of a loop: its stages and rounds, and the reason why it is over.

    ``stopped`` is the reason that a person or agent gave when stopping the loop.
    """

    stages: list[str]
    rounds: list[Round] = field(default_factory=lambda: [Round(1)])
    stopped: str | None = None
    over: str | None = None

    @property
    def round(self) -> Round:
        """The newest round of the loop."""
        return self.rounds[-1]

    @property
    def is_due(self) -> bool:
        """Return whether the newest round has ended and the loop is not over.

        The next round may then start.
        """
        return self.over is None and self.round.ended_at is not None

    @property
    def points_from_rounds(self) -> list[dict[str, Any]]:
        """The points that rounds added to the points of the plan, in order."""
        return [point for one in self.rounds for point in one.points]


def loop_state_of(values: dict[str, Any]) -> LoopState:
    """Return the state of a loop from its stored form."""
    return LoopState(**{**values, "rounds": [Round(**one) for one in values["rounds"]]})
