"""Describe the mandates (permissions given in advance) and their remaining limits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from lifecycle.state.effort import MandateUse, compute_mandate_use
from lifecycle.state.workflow import Workflow
from lifecycle.words.mandates import Bounds, Mandate, canonical_text, parse_valid_mandates
from projections.words.text import spell_unseen

_HOUR = 3600.0


class MandateStanding(NamedTuple):
    """A mandate (permission given in advance), and the used part of each limit."""

    mandate: Mandate
    used: MandateUse

    @property
    def limits(self) -> dict[str, tuple[float, float]]:
        """The numeric limits by name. Each value is the used amount and the maximum."""
        one, so_far = self.mandate, self.used
        hours = round(so_far.core_seconds / _HOUR, 4)
        found: dict[str, tuple[float, float]] = {
            "amendments": (so_far.amendments, one.amendments),
            "reruns": (so_far.reruns, one.reruns),
        }
        found |= {"tasks": (so_far.tasks, one.tasks)} if one.tasks is not None else {}
        return found | ({"core hours": (hours, one.core_hours)} if one.core_hours else {})

    def to_dict(self) -> dict[str, Any]:
        """Return the mandate and its use as JSON values."""
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
        return "; ".join(self._format_parts())

    def _format_parts(self) -> Iterator[str]:
        one = self.mandate
        told = (
            f"{used:g} of {most:g} {name}" for name, (used, most) in self.limits.items() if most
        )
        yield f"{one.name}: {', '.join(told)} used"
        yield from (f"{path} {describe_range(bounds)}" for path, bounds in one.values.items())
        if one.by:
            yield f"for {', '.join(map(spell_unseen, one.by))}"
        if one.until:
            yield f"until {one.until}"


def describe_range(bounds: Bounds) -> str:
    """Return a range as text, such as ``0.1 to 0.5 in steps of 0.1``."""
    if isinstance(bounds, list):
        return f"one of {', '.join(map(canonical_text, bounds))}"
    steps = f" in steps of {canonical_text(bounds['step'])}" if "step" in bounds else ""
    return f"{canonical_text(bounds['from'])} to {canonical_text(bounds['to'])}{steps}"


def list_mandates(state: Workflow) -> list[MandateStanding]:
    """Return the mandates of a workflow and their current use, in the order of the plan.

    A mandate is a permission that a person gave in advance.
    """
    if not state.mandates:
        return []
    found = parse_valid_mandates(state.mandates)
    return [MandateStanding(one, compute_mandate_use(state, one.name)) for one in found.values()]
