"""The resources that the next attempt of a stage requests, derived from its earlier attempts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import ceil
from typing import Any

from lifecycle.state.basis import compute_basis_digest, merge_resources
from lifecycle.state.status import Status
from lifecycle.state.workflow import Attempt, Stage, Workflow
from lifecycle.words.mandates import TIME_LIMIT, time_limit
from lifecycle.words.resources import (
    REMEDIES,
    RESOURCES,
    ResourceRequest,
    format_amount,
    format_short_amount,
    parse_resources,
)

#: For each shortage, how a message describes the end of an attempt.
_ENDS: Mapping[str, str] = {"memory": "ran out of memory", "time": "exceeded its time limit"}


def list_requests(state: Workflow, stage: Stage) -> dict[str, ResourceRequest]:
    """Return the resources that the plan requests for a stage, by name."""
    profile = state.profile(stage).get(RESOURCES)
    return parse_resources(profile, stage.parameters.get(RESOURCES))


def compute_next_request(state: Workflow, stage: Stage) -> dict[str, float]:
    """Return the amount of each resource that the next attempt of a stage requests.

    An attempt requests what the previous one with the same definition requested. If the previous
    attempt ran out of memory or exceeded its time limit, one amount grows.
    """
    requests = list_requests(state, stage)
    if not requests:
        return {}
    last = _find_last_comparable_attempt(state, stage)
    name = _find_growing_resource(requests, last)
    return {
        each: _answer_amount(one, last, each) if each == name else _keep_amount(one, last, each)
        for each, one in requests.items()
    }


def find_growing_resource(state: Workflow, stage: Stage) -> str | None:
    """Return the resource of which the next attempt of a failed stage requests more, or None.

    None means that the last failure had another cause, or that every ceiling is reached.
    """
    if stage.status is not Status.FAILED or stage.short_of is None:
        return None
    last = _find_last_comparable_attempt(state, stage)
    return _find_growing_resource(list_requests(state, stage), last)


def can_answer_shortage(state: Workflow, stage: Stage, shortage: str | None) -> bool:
    """Return whether the attempt after the current one can request more against a shortage."""
    last = _find_last_comparable_attempt(state, stage)
    if last is None or shortage not in REMEDIES:
        return False
    requests = list_requests(state, stage)
    return _find_growing_resource(requests, replace(last, short_of=shortage)) is not None


def is_memory_shortage_certain(state: Workflow, stage: Stage) -> bool:
    """Return whether a command that SIGKILL ended counts as one that ran out of memory.

    This is the case if the plan states the memory of the stage, or if the next attempt can request
    more against a memory shortage. Otherwise the cause of SIGKILL is open.
    """
    stated = "memory_gb" in list_requests(state, stage)
    return stated or can_answer_shortage(state, stage, "memory")


def find_reached_ceiling(state: Workflow, stage: Stage, shortage: str | None) -> str | None:
    """Return the resource that would help against a shortage but has reached its ceiling, or None.

    The shortage is that of the stage's last attempt with the current definition.
    """
    last, requests = _find_last_comparable_attempt(state, stage), list_requests(state, stage)
    if last is None or can_answer_shortage(state, stage, shortage):
        return None
    return next((name for name in REMEDIES.get(shortage or "", ()) if name in requests), None)


def describe_reached_ceiling(state: Workflow, stage: Stage, shortage: str | None) -> str | None:
    """Return a message that the last attempt requested all that the plan allows, or None."""
    name = find_reached_ceiling(state, stage, shortage)
    if name is None:
        return None
    amount = format_amount(
        name, _get_last_amount(_find_last_comparable_attempt(state, stage), name)
    )
    return f"{stage.id} already requested {amount}, the most that the plan allows"


def find_ceiling_field(state: Workflow, stage: Stage, name: str) -> tuple[str, bool]:
    """Return the field with the ceiling of a resource, such as ``resources.cores.at_most``.

    The second value states whether the stage itself has this field, and not its backend profile.
    """
    can_grow, own = list_requests(state, stage)[name].can_grow, stage.parameters.get(RESOURCES)
    field = f"{RESOURCES}.{name}.at_most" if can_grow else f"{RESOURCES}.{name}"
    return field, isinstance(own, dict) and name in own


def describe_growth(state: Workflow, stage: Stage, name: str) -> str:
    """Return a sentence on the end of the last attempt and the larger request of the next one."""
    last = _find_last_comparable_attempt(state, stage)
    if last is None:
        return describe_next_request(state, stage, name)
    ended = _ENDS.get(last.short_of or "", "failed")
    before = _get_last_amount(last, name)
    amount = f" with {format_short_amount(name, before)}" if before else ""
    return f"{last.id} {ended}{amount}; {describe_next_request(state, stage, name)}"


def describe_next_request(state: Workflow, stage: Stage, name: str) -> str:
    """Return a phrase on the amount of a resource that the next attempt requests."""
    amount = compute_next_request(state, stage)[name]
    return f"the next attempt requests {format_short_amount(name, amount)}"


def describe_grown_request(state: Workflow, stage: Stage) -> str | None:
    """Return a phrase on the larger request of a stage that waits for its next attempt, or None."""
    name = stage.attempts[-1].grown if stage.attempts else None
    if stage.status is not Status.READY or name not in compute_next_request(state, stage):
        return None
    return describe_next_request(state, stage, name)


def get_time_limit(state: Workflow, stage: Stage) -> int | None:
    """Return the time limit in seconds of the next attempt's command or tasks, or None."""
    requested = compute_next_request(state, stage).get(TIME_LIMIT)
    return time_limit(stage.parameters) if requested is None else int(requested)


def cores_per_task(state: Workflow, stage: Stage) -> int:
    """Return the number of cores that one task of the stage uses, on all its nodes."""
    found, requested = merge_resources(state, stage), compute_next_request(state, stage)
    nodes = requested.get("nodes", found.get("number_node"))
    cores = requested.get("cores", found.get("cpu_per_node"))
    return _parse_positive_count(nodes) * _parse_positive_count(cores)


def _parse_positive_count(given: Any) -> int:
    """Return a value as an integer of at least 1, rounded up.

    Return 1 for a value that is not a number.
    """
    try:
        return max(1, ceil(float(given)))
    except (TypeError, ValueError, OverflowError):
        return 1


def _find_last_comparable_attempt(state: Workflow, stage: Stage) -> Attempt | None:
    """Return the newest attempt with the current definition of the stage, or None."""
    if not stage.attempts:
        return None
    basis = compute_basis_digest(state, stage)
    return next((one for one in reversed(stage.attempts) if one.basis == basis), None)


def _keep_amount(request: ResourceRequest, last: Attempt | None, name: str) -> float:
    """Return the amount that the previous attempt requested, within the current limits."""
    return min(max(_get_last_amount(last, name), request.start), request.at_most)


def _get_last_amount(last: Attempt | None, name: str) -> float:
    """Return the amount that the previous attempt requested, or 0."""
    return last.requested.get(name, 0) if last is not None else 0


def _answer_amount(request: ResourceRequest, last: Attempt | None, name: str) -> float:
    """Return the amount that the next attempt requests against a shortage.

    If the plan now starts with more than the previous attempt requested, this is enough.
    """
    kept = _keep_amount(request, last, name)
    return kept if kept > _get_last_amount(last, name) else request.grow(kept)


def _find_growing_resource(
    requests: Mapping[str, ResourceRequest], last: Attempt | None
) -> str | None:
    """Return the first resource that helps against the shortage and can still grow, or None."""
    if last is None or last.short_of is None:
        return None
    return next(
        (
            name
            for name in REMEDIES[last.short_of]
            if name in requests
            and _answer_amount(requests[name], last, name) > _get_last_amount(last, name)
        ),
        None,
    )
