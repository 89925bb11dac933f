"""States of jobs in a scheduler, and the jobs that a queue lists."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from reconciler.host.processes import find_containing_folder

#: States of Slurm for jobs that have ended.
_ENDED = frozenset({"COMPLETED", "FAILED", "REVOKED", "SPECIAL_EXIT"})
#: States of Slurm for jobs that were ended from outside, without a fault of the job.
TAKEN = frozenset({"CANCELLED", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL"})
#: States of Slurm for jobs that ended because they exceeded a requested limit.
EXCEEDED = frozenset({"TIMEOUT", "OUT_OF_MEMORY", "DEADLINE"})
#: For each state of a job that Slurm ended, the line that Slurm prints into the output of the job.
_PRINTED = (
    ("OUT_OF_MEMORY", re.compile(r"slurmstepd.*(\boom[-_ ]kill|out of memory)", re.IGNORECASE)),
    ("OUT_OF_MEMORY", re.compile(r"slurmstepd.*exceeded .*memory limit", re.IGNORECASE)),
    ("TIMEOUT", re.compile(r"slurmstepd.*CANCELLED AT .*DUE TO TIME LIMIT")),
)


def find_printed_slurm_state(output: str) -> str | None:
    """Return the final state of a job if Slurm printed it into the job's output, or None."""
    return next((state for state, words in _PRINTED if words.search(output)), None)


#: Messages of DPDispatcher after which it is unknown whether the scheduler accepted a job. They
#: mean no connection, no answer in time, or success without a job id.
UNHEARD = (
    "Unable to contact slurm controller",
    "Socket timed out on send/recv operation",
    "list index out of range",
)


@dataclass(frozen=True, slots=True)
class ListedJob:
    """A job in the scheduler's list.

    ``folder`` is the folder from which it was submitted. ``reason`` is the reason why the job is
    pending. It is None if the job is not pending or the reason is unknown.
    """

    id: str
    state: str
    folder: str
    reason: str | None = None

    @property
    def is_alive(self) -> bool:
        """Return whether the job waits or runs.

        This is assumed for a job in an unknown state.
        """
        return self.state not in _ENDED | TAKEN | EXCEEDED


@dataclass(frozen=True, slots=True)
class Queue:
    """The answer of the scheduler to a query of its jobs.

    If the scheduler did not answer, ``listed`` is None and ``error`` is the reason. ``asked_at`` is
    the time of the query in ns since the epoch, by the clock of the machine that asked.
    ``is_reused`` states that the query is older than the current check.
    """

    asked_at: int
    listed: tuple[ListedJob, ...] | None
    error: str | None = None
    is_reused: bool = False

    def split(self, places: AbstractSet[str]) -> dict[str, Queue]:
        """Return the answer for each folder: the jobs that work in it or below it.

        Jobs that work elsewhere are omitted. If one of them has the id of an expected job, it
        belongs to another user, because ids are reused.
        """
        if self.listed is None:
            return dict.fromkeys(places, self)
        own: dict[str | None, list[ListedJob]] = {place: [] for place in places}
        for one in self.listed:
            own.setdefault(find_containing_folder(one.folder, places), []).append(one)
        return {place: replace(self, listed=tuple(own[place])) for place in places}
