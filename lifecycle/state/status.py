"""The statuses of a stage and the whole transition table, as data.

Source of the table: the published staged-workflow protocol ("Statuses and transitions").
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple


class Status(StrEnum):
    """Where a stage stands."""

    PENDING = "pending"
    READY = "ready"
    PREPARING = "preparing"
    RUNNING = "running"
    POST_PROCESSING = "post_processing"
    COMPLETED = "completed"
    FAILED = "failed"
    INVALIDATED = "invalidated"
    SKIPPED = "skipped"


class StatusChange(NamedTuple):
    """One legal change of status: the event types that make it, and when it is so."""

    source: Status
    target: Status
    events: tuple[str, ...]
    when: str
    by_amendment: bool = False


_P, _R, _PR, _RU, _PP, _C, _F, _I, _S = Status

#: Every change of status there is. What is not here is refused.
TRANSITIONS: tuple[StatusChange, ...] = (
    StatusChange(_P, _R, ("stage.readied",), "every stage in depends_on is completed"),
    StatusChange(_R, _PR, ("stage.prepared",), "picked up"),
    StatusChange(_PR, _RU, ("stage.launched",), "launched"),
    StatusChange(
        _PR,
        _PP,
        ("stage.computed", "outputs.reused"),
        "a synchronous job ended with exit code 0, or kept outputs are reused",
    ),
    StatusChange(_PR, _F, ("stage.failed",), "preparation failed, or superseded by an amendment"),
    StatusChange(_RU, _PP, ("stage.computed",), "the computation ended with exit code 0"),
    StatusChange(_RU, _F, ("stage.failed",), "crashed, timed out, or superseded by an amendment"),
    StatusChange(_PP, _C, ("stage.completed",), "verification passed"),
    StatusChange(_PP, _F, ("stage.failed",), "verification failed, or superseded by an amendment"),
    StatusChange(_C, _I, ("stage.invalidated",), "something upstream runs again", True),
    StatusChange(_F, _I, ("stage.invalidated",), "what it rests on runs again", True),
    StatusChange(_I, _R, ("stage.readied",), "its dependencies are completed again"),
    StatusChange(_F, _R, ("stage.retried", "stage.readied"), "retry, or an approved stage_rerun"),
    *(
        StatusChange(source, _S, ("stage.skipped",), "a stage_skip of it was approved", True)
        for source in Status
        if source is not _S
    ),
)

_BY_PAIR = {(t.source, t.target): t for t in TRANSITIONS}

#: What no work can follow from, except through an amendment.
FINISHED = frozenset({Status.COMPLETED, Status.SKIPPED})
#: An attempt may be under way.
ACTIVE = frozenset({Status.PREPARING, Status.RUNNING, Status.POST_PROCESSING})
#: A dependency in one of these holds its dependents back until somebody acts.
BLOCKING = frozenset({Status.FAILED, Status.SKIPPED})


def transition(source: Status, target: Status) -> StatusChange | None:
    """Return the table's row for a pair of statuses, None if it holds none."""
    return _BY_PAIR.get((source, target))


def targets(source: Status) -> list[str]:
    """Return the statuses that may follow ``source``, in the order of the table."""
    return [t.target.value for t in TRANSITIONS if t.source is source]


#: Retries, by the backend profile's ``type``. Source: the staged-workflow protocol, "Retry".
RETRY_LIMITS: Mapping[str, int] = {"local": 3, "remote": 5}

#: New computations for an attempt that was lost through no fault of the job.
RECOVERY_LIMIT = 1


def backend_type(profiles: Mapping[str, Any], name: str) -> str:
    """Return ``local`` or ``remote``; a profile that says nothing is local."""
    profile = profiles.get(name) or {}
    return str(profile.get("type", "local"))


def retry_limit(kind: str) -> int:
    """Return how many retries a backend of this kind allows."""
    return RETRY_LIMITS.get(kind, RETRY_LIMITS["local"])
