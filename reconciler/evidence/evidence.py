"""Evidence: what was seen of an attempt at one moment, as plain values.

The values survive a round trip through JSON, so that a verdict can be derived again from what was
recorded. A source that gave no answer is None, which is never the same as "no".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any

from reconciler.attempt.markers import Marker, SeenMarker
from reconciler.attempt.observed import Far, ObservedJob
from reconciler.host.processes import Tenant
from reconciler.host.program import Queue

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_UNMARKED = Marker(SeenMarker.NONE)


class Presence(StrEnum):
    """Whether a file is there, and whether it holds anything."""

    PRESENT = "present"
    EMPTY = "empty"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class OutputEvidence:
    """An output of the stage; ``new`` says whether it was put in place after the launch.

    ``sha256`` is taken where its job is seen to have ended well.
    """

    path: str
    presence: Presence
    new: bool | None = None
    size: int | None = None
    mtime: int | None = None
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class ForeignLaunch:
    """The launch of an attempt by a person, or by the workflow that was imported.

    ``why_unknown`` says why the folder of DPDispatcher cannot be determined.
    """

    on_a_cluster: bool
    why_unknown: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything that a verdict on an attempt may go by.

    ``tenants`` are the live processes in the attempt's scratch copies, ``copies`` the scratch
    copies that exist, ``recovery_file`` whether DPDispatcher has written down its submission.
    ``scheduler`` names the one that the jobs wait for, ``queue`` is its answer where it can be
    asked, ``far`` that of the machine where the jobs run. ``looked_twice`` says that what is
    missing was missing at two looks, some seconds apart, ``last_chance`` that this attempt stands
    for one that was lost, so that no other would follow it, ``moved`` that it was begun where the
    root was before, and can only be watched, ``in_vain`` that monitors of it ended again and again
    for the same reason, so that another one is of no use, ``monitor_stopped`` that the monitor was
    told to stop where it is, ``verifiable`` that a command of the stage tells whether its outputs
    are right. ``awaited`` names processes that a command which ended well has left at work.
    ``stopped`` holds the processes of its jobs on this machine that were told to stop (SIGSTOP).
    ``foreign_launch`` is None if wfctl launched the attempt.
    """

    observed_at: str
    attempt: str
    root_recorded: str | None = None
    root_now: str
    host_recorded: str | None = None
    host_now: str
    boot_recorded: str | None = None
    boot_now: str
    launched_at: int | None = None
    monitor_locked: bool | None = None
    monitor_alive: bool | None = None
    session: bool | None = None
    jobs: tuple[ObservedJob, ...] = ()
    tenants: tuple[Tenant, ...] | None = None
    copies: tuple[str, ...] = ()
    recovery_file: bool = False
    backward_missing: tuple[str, ...] = ()
    exit_marker: Marker = _UNMARKED
    done_marker: Marker = _UNMARKED
    outputs: tuple[OutputEvidence, ...] = ()
    scheduler: str | None = None
    queue: Queue | None = None
    far: Far | None = None
    looked_twice: bool = False
    last_chance: bool = False
    moved: bool = False
    in_vain: bool = False
    monitor_stopped: bool = False
    verifiable: bool = False
    awaited: tuple[str, ...] = ()
    stopped: tuple[int, ...] = ()
    foreign_launch: ForeignLaunch | None = None

    @property
    def open_jobs(self) -> list[ObservedJob]:
        """The jobs that have not been seen to end."""
        return [job for job in self.jobs if not job.is_over and not job.is_finished]

    @property
    def refusal(self) -> str | None:
        """The mistake for which the machine of the jobs refuses its service, if it does."""
        return None if self.far is None else self.far.refusal

    @property
    def silence(self) -> str | None:
        """Why a machine or scheduler that was asked gave no answer; None if each did.

        A refusal is an answer.
        """
        if self.far is not None and self.far.error is not None:
            return None if self.far.refusal else self.far.error
        if self.queue is not None and self.queue.listed is None:
            return self.queue.error or "the scheduler is silent"
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        found: dict[str, Any] = _adapter().dump_python(self, mode="json")
        if self.foreign_launch is None:
            # Each observation is an event, and nearly all attempts have no such launch.
            del found["foreign_launch"]
        if not self.stopped:
            del found["stopped"]
        return found

    @staticmethod
    def from_dict(values: dict[str, Any]) -> Evidence:
        """Build evidence from what ``to_dict`` returned."""
        return _adapter().validate_python(values)


@cache
def _adapter() -> TypeAdapter[Evidence]:
    from pydantic import TypeAdapter  # only where evidence is there to be written or read

    return TypeAdapter(Evidence)
