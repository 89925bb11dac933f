"""``report`` of a phase machine: one HTML page that needs no network and no script."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from jinja2 import PackageLoader
from markupsafe import Markup

from lifecycle.event import Event
from lifecycle.machines.machine import Machine, Move
from projections.drawing import svg
from projections.exports.markup import environment
from projections.machines.history import message
from projections.words.came_about import agreement

Step = tuple[Any, Machine]


@dataclass(slots=True)
class _Told:
    """What the events of a machine say, in the order in which they were recorded."""

    approvals: list[dict[str, Any]] = field(default_factory=list)
    log: list[tuple[str, str]] = field(default_factory=list)
    imported: list[str] = field(default_factory=list)

    def take(self, event: Event, state: Machine) -> None:
        data = event.data
        self.log.append((event.occurred_at, message(event.type, data)))
        if event.type in ("machine.approved", "machine.withdrawn", "machine.limited"):
            how = agreement((data.get("proof") or {}).get("policy"), data.get("approved_by"))
            self.approvals.append(
                {
                    "at": event.occurred_at,
                    "what": message(event.type, data),
                    "how": how or "no proof says who agreed",
                }
            )
        if event.type == "machine.imported":
            self.imported = [one.phase for one in state.visits.values() if one.completed_at]


def export(steps: Iterable[Step]) -> Iterator[str]:
    """Yield the page of a machine after its steps; nothing of one that has none."""
    told, state = _Told(), None
    for event, state in steps:
        told.take(event, state)
    if state is None:
        return iter(())
    template = environment(PackageLoader("projections", "exports/templates")).get_template(
        "machine.html.j2"
    )
    return template.generate(
        state=state,
        told=told,
        stays=list(_stays(state)),
        loops=[
            (one, state.counts.get(one, 0), state.limit_of(one)) for one in state.definition.loops
        ],
        colors=Markup(svg.variables(":root")),  # ours, escaped where it was made
    )


def _stays(state: Machine) -> Iterator[dict[str, Any]]:
    """Yield each stay in a phase: when it began and ended, and why it was left."""
    phase = state.moves[0].source if state.moves else state.phase
    begun = state.created
    for move in state.moves:
        yield {"phase": phase, "begun": begun, "ended": move.at, "why": _why(move)}
        phase, begun = move.to, move.at
    yield {"phase": phase, "begun": begun, "ended": None, "why": ""}


def _why(move: Move) -> str:
    counted = f"{move.loop} {move.count} of {move.limit}" if move.loop else ""
    diverted = f"instead of {move.asked}" if move.is_diverted else ""
    return ", ".join(one for one in (counted, diverted, move.reason or "") if one)
