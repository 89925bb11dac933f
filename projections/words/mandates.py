"""What a person allowed beforehand, and what is left of it, in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lifecycle.state.effort import Used, used
from lifecycle.state.workflow import Workflow
from lifecycle.words.mandates import Bounds, Mandate, mandates_of, spelling
from projections.words.text import spelled

_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class MandateStanding:
    """A mandate, and what was used of it so far."""

    mandate: Mandate
    used: Used

    @property
    def limits(self) -> dict[str, tuple[float, float]]:
        """What is limited by a number: what was used, and the most."""
        one, so_far = self.mandate, self.used
        hours = round(so_far.core_seconds / _HOUR, 4)
        found: dict[str, tuple[float, float]] = {
            "amendments": (so_far.amendments, one.amendments),
            "reruns": (so_far.reruns, one.reruns),
        }
        found |= {"tasks": (so_far.tasks, one.tasks)} if one.tasks is not None else {}
        return found | ({"core hours": (hours, one.core_hours)} if one.core_hours else {})

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        one = self.mandate
        return {
            "name": one.name,
            "stages": list(one.stages),
            "values": dict(one.values),
            "by": list(one.by),
            "until": one.until,
            "used": {name.replace(" ", "_"): used for name, (used, _) in self.limits.items()},
            "most": {name.replace(" ", "_"): most for name, (_, most) in self.limits.items()},
        }

    def __str__(self) -> str:
        return "; ".join(self._parts())

    def _parts(self) -> Iterator[str]:
        one = self.mandate
        told = (
            f"{used:g} of {most:g} {name}" for name, (used, most) in self.limits.items() if most
        )
        yield f"{one.name}: {', '.join(told)} used"
        yield from (f"{path} {range_told(bounds)}" for path, bounds in one.values.items())
        if one.by:
            yield f"for {', '.join(map(spelled, one.by))}"
        if one.until:
            yield f"until {one.until}"


def range_told(bounds: Bounds) -> str:
    """Return bounds in words: ``0.1 to 0.5 in steps of 0.1``."""
    if isinstance(bounds, list):
        return f"one of {', '.join(map(spelling, bounds))}"
    steps = f" in steps of {spelling(bounds['step'])}" if "step" in bounds else ""
    return f"{spelling(bounds['from'])} to {spelling(bounds['to'])}{steps}"


def standings(state: Workflow) -> list[MandateStanding]:
    """Return the mandates of a workflow as they stand, in the order of the definition."""
    if not state.mandates:
        return []
    found = mandates_of(state.mandates)
    return [MandateStanding(one, used(state, one.name)) for one in found.values()]
