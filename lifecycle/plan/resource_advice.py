"""Suggest the amounts of resources that a plan should request first, from earlier attempts."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from lifecycle.state.requested_resources import list_requests
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.words.resources import ResourceRequest, format_amount

#: A start is too high if it is this many times the memory that the attempts used.
_TOO_MUCH = 4
#: Factor between the memory that attempts used and the suggested start.
_RESERVE = 1.5
_GB = 1024**3


def suggest_resource_starts(plan: Workflow, recorded: Workflow) -> list[str]:
    """Return a sentence for each start in a plan that does not fit the recorded attempts."""
    known = recorded.stages
    return [
        line
        for id_, stage in plan.stages.items()
        if id_ in known
        for name, request in list_requests(plan, stage).items()
        for line in (
            *_suggest_higher_start(known[id_], name, request),
            *_suggest_lower_start(known[id_], name, request),
        )
    ]


def _suggest_higher_start(stage: Stage, name: str, request: ResourceRequest) -> Iterator[str]:
    """Yield a sentence if every successful attempt requested more than the start."""
    amounts = [
        attempt.requested[name]
        for attempt in stage.attempts
        if attempt.outcome in ("computed", "completed") and name in attempt.requested
    ]
    if amounts and min(amounts) > request.start:
        yield (
            f"{stage.id}: resources.{name} starts at {request.start:g}, but the successful "
            f"attempts requested at least {format_amount(name, min(amounts))}; with a start of "
            f"{min(amounts):g}, the first attempt could succeed"
        )


def _suggest_lower_start(stage: Stage, name: str, request: ResourceRequest) -> Iterator[str]:
    """Yield a sentence if the attempts used only a small part of the requested memory."""
    used = [
        attempt.resources["peak_memory_bytes"] / _GB
        for attempt in stage.attempts
        if "peak_memory_bytes" in attempt.resources and name in attempt.requested
    ]
    if name != "memory_gb" or not used or stage.status != "completed":
        return
    enough = max(1, ceil(max(used) * _RESERVE))
    if enough < request.start and max(used) * _TOO_MUCH < request.start:
        yield (
            f"{stage.id}: resources.{name} starts at {request.start:g}, but the largest process "
            f"of an attempt used {max(used):.2g} GB; a start of {enough} could be enough"
        )
