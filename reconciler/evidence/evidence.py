"""The data classes for the evidence on an attempt at one moment.

The evidence can be written as JSON into the log and read back, so that the verdict can be derived
again. A value of None means that a source gave no answer. It never means "no".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any

from reconciler.attempt.markers import Marker, MarkerState
from reconciler.attempt.observations import ObservedJob, RemoteAnswer
from reconciler.host.processes import FolderProcess
from reconciler.host.scheduler_jobs import Queue

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_UNMARKED = Marker(MarkerState.NONE)


class Presence(StrEnum):
    """Whether a file exists, and whether it is empty."""

    PRESENT = "present"
    EMPTY = "empty"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class OutputEvidence:
    """The observations of one output of a stage.

    ``new`` states whether the output was written after the launch of the attempt. ``sha256`` is
    None unless the job has succeeded.
    """

    path: str
    presence: Presence
    new: bool | None = None
    size: int | None = None
    mtime: int | None = None
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class ForeignLaunch:
    """A launch that wfctl did not make, but a person or an imported workflow.

    ``why_unknown`` is the reason why the folder in which DPDispatcher works cannot be determined.
    """

    on_a_cluster: bool
    why_unknown: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All observations of an attempt at one moment, as the basis of a verdict.

    - ``tenants`` are the running processes in the attempt's scratch copies, and ``copies`` the
      existing scratch copies.
    - ``recovery_file`` states whether DPDispatcher has recorded its submission.
    - ``scheduler`` is the scheduler of the jobs, and ``queue`` its answer.
    - ``far`` is the answer of the machine of the jobs, if it is not this machine.
    - ``looked_twice`` states that the missing items were missing in two checks, some seconds
      apart.
    - ``last_chance`` states that no other attempt may follow, because this attempt already
      replaces a lost one.
    - ``moved`` states that the root or ``remote_root`` was moved, so that the attempt can only be
      watched.
    - ``in_vain`` states that the monitors of the attempt ended repeatedly for the same reason, so
      that another monitor does not help.
    - ``monitor_stopped`` states that the signal SIGSTOP has paused the monitor, and ``stopped``
      contains the ids of local processes of the jobs that it has paused.
    - ``verifiable`` states that a command of the stage checks its outputs.
    - ``awaited`` names processes that a successful command left running.
    - ``scratch_refusal`` is the reason why no folder for the jobs can be created on this machine.
    - ``submission_tried`` states that DPDispatcher was called to submit jobs in a folder on another
      machine, and that this folder no longer exists.
    - ``foreign_launch`` is None if wfctl launched the attempt.
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
    tenants: tuple[FolderProcess, ...] | None = None
    copies: tuple[str, ...] = ()
    recovery_file: bool = False
    backward_missing: tuple[str, ...] = ()
    exit_marker: Marker = _UNMARKED
    done_marker: Marker = _UNMARKED
    outputs: tuple[OutputEvidence, ...] = ()
    scheduler: str | None = None
    queue: Queue | None = None
    far: RemoteAnswer | None = None
    looked_twice: bool = False
    last_chance: bool = False
    moved: bool = False
    in_vain: bool = False
    monitor_stopped: bool = False
    verifiable: bool = False
    awaited: tuple[str, ...] = ()
    stopped: tuple[int, ...] = ()
    scratch_refusal: str | None = None
    submission_tried: bool = False
    foreign_launch: ForeignLaunch | None = None

    @property
    def open_jobs(self) -> list[ObservedJob]:
        """The jobs for which no end was observed."""
        return [job for job in self.jobs if not job.is_over and not job.is_finished]

    @property
    def remaining(self) -> list[tuple[str, ...]]:
        """The names of the processes that still ran at the end of each job, if any did."""
        return [job.remaining for job in self.jobs if job.remaining]

    @property
    def refusal(self) -> str | None:
        """The mistake that a person must correct before the machine can run jobs, or None."""
        return self.scratch_refusal if self.far is None else self.far.refusal

    @property
    def missing_answer_reason(self) -> str | None:
        """The reason why a machine or scheduler did not answer, or None.

        A machine that refused the connection has answered, so the result is None.
        """
        if self.far is not None and self.far.error is not None:
            return None if self.far.refusal else self.far.error
        if self.queue is not None and self.queue.listed is None:
            return self.queue.error or "the scheduler does not answer"
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        found: dict[str, Any] = _adapter().dump_python(self, mode="json")
        if self.foreign_launch is None:
            # Each observation is stored as an event. Fields that are usually empty are omitted to
            # keep the events small.
            del found["foreign_launch"]
        if self.queue is not None and not self.queue.is_reused:
            del found["queue"]["is_reused"]
        for job in found["jobs"]:
            if not job["remaining"]:
                del job["remaining"]
        if not self.stopped:
            del found["stopped"]
        if self.scratch_refusal is None:
            del found["scratch_refusal"]
        if not self.submission_tried:
            del found["submission_tried"]
        return found

    @staticmethod
    def from_dict(values: dict[str, Any]) -> Evidence:
        """Build evidence from the result of ``to_dict``."""
        return _adapter().validate_python(values)


@cache
def _adapter() -> TypeAdapter[Evidence]:
    from pydantic import TypeAdapter  # imported only to read or write evidence

    return TypeAdapter(Evidence)
