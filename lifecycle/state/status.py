"""The statuses of a stage, and the table of all allowed changes of status.

The table is defined in the published staged-workflow protocol ("Statuses and transitions").
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple


class Status(StrEnum):
    """The status of a stage."""

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
    """One allowed change of status: the event types that cause it, and its condition."""

    source: Status
    target: Status
    events: tuple[str, ...]
    when: str
    by_amendment: bool = False


_P, _R, _PR, _RU, _PP, _C, _F, _I, _S = Status

#: All allowed changes of status.
TRANSITIONS: tuple[StatusChange, ...] = (
    StatusChange(_P, _R, ("stage.readied",), "every stage in depends_on is completed"),
    StatusChange(_R, _PR, ("stage.prepared",), "the preparation starts"),
    StatusChange(_PR, _RU, ("stage.launched",), "the job starts"),
    StatusChange(
        _PR,
        _PP,
        ("stage.computed", "outputs.reused"),
        "a synchronous job ended with exit code 0, or existing outputs are reused",
    ),
    StatusChange(
        _PR, _F, ("stage.failed",), "the preparation failed, or an amendment superseded the attempt"
    ),
    StatusChange(_RU, _PP, ("stage.computed",), "the computation ended with exit code 0"),
    StatusChange(
        _RU,
        _F,
        ("stage.failed",),
        "the job crashed or timed out, or an amendment superseded the attempt",
    ),
    StatusChange(_PP, _C, ("stage.completed",), "all checks passed"),
    StatusChange(
        _PP, _F, ("stage.failed",), "a check failed, or an amendment superseded the attempt"
    ),
    StatusChange(_C, _I, ("stage.invalidated",), "an upstream stage runs again", True),
    StatusChange(_F, _I, ("stage.invalidated",), "an upstream stage runs again", True),
    StatusChange(_I, _R, ("stage.readied",), "its dependencies are completed again"),
    StatusChange(_F, _R, ("stage.retried", "stage.readied"), "retry, or an approved stage_rerun"),
    *(
        StatusChange(source, _S, ("stage.skipped",), "a stage_skip of the stage was approved", True)
        for source in Status
        if source is not _S
    ),
)

_BY_PAIR = {(t.source, t.target): t for t in TRANSITIONS}

#: Statuses in which a stage has no work left. Only an amendment changes such a status.
FINISHED = frozenset({Status.COMPLETED, Status.SKIPPED})
#: Statuses in which an attempt may be running.
ACTIVE = frozenset({Status.PREPARING, Status.RUNNING, Status.POST_PROCESSING})
#: Statuses of a dependency that block dependent stages until a person or agent acts.
BLOCKING = frozenset({Status.FAILED, Status.SKIPPED})


def transition(source: Status, target: Status) -> StatusChange | None:
    """Return the entry for a change between two statuses, or None if it is not allowed."""
    return _BY_PAIR.get((source, target))


def targets(source: Status) -> list[str]:
    """Return the statuses to which a stage with the status ``source`` may change."""
    return [t.target.value for t in TRANSITIONS if t.source is source]


#: Maximum number of retries by type of backend, as the staged-workflow protocol defines it.
RETRY_LIMITS: Mapping[str, int] = {"local": 3, "remote": 5}

#: Maximum number of times that an attempt is computed again after it was lost without a fault of
#: its job.
RECOVERY_LIMIT = 1


def backend_type(profiles: Mapping[str, Any], name: str) -> str:
    """Return the type of a backend profile, ``local`` or ``remote``. The default is ``local``."""
    profile = profiles.get(name) or {}
    return str(profile.get("type", "local"))


def retry_limit(kind: str) -> int:
    """Return the maximum number of retries on a backend of this type."""
    return RETRY_LIMITS.get(kind, RETRY_LIMITS["local"])
