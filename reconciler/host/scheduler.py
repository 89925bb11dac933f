"""The scheduler as evidence: what it says of an attempt's jobs, and when it was asked."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from reconciler.host.places import place_of

#: States in which Slurm has ended with a job.
_ENDED = frozenset({"COMPLETED", "FAILED", "REVOKED", "SPECIAL_EXIT"})
#: Ended through no fault of the job.
TAKEN = frozenset({"CANCELLED", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL"})
#: Ended since the job took more than it had asked for.
EXCEEDED = frozenset({"TIMEOUT", "OUT_OF_MEMORY", "DEADLINE"})
#: What DPDispatcher prints of a submission that the scheduler neither took nor refused, as far as
#: anybody knows: no connection, no answer in time, success without an id.
UNHEARD = (
    "Unable to contact slurm controller",
    "Socket timed out on send/recv operation",
    "list index out of range",
)


@dataclass(frozen=True, slots=True)
class Listed:
    """A job as the scheduler lists it; ``folder`` is the one it was submitted from."""

    id: str
    state: str
    folder: str

    @property
    def is_alive(self) -> bool:
        """Whether it waits or runs; a state that is not known to be an end is none."""
        return self.state not in _ENDED | TAKEN | EXCEEDED


@dataclass(frozen=True, slots=True)
class Queue:
    """The scheduler's answer; ``listed`` is None where it gave none, and ``error`` says why.

    ``asked_at`` is in ns since the epoch, by the clock of the machine that asked.
    """

    asked_at: int
    listed: tuple[Listed, ...] | None
    error: str | None = None

    def split(self, places: AbstractSet[str]) -> dict[str, Queue]:
        """Return what it says of the jobs that work in each of the folders or below it.

        One of a known id that works elsewhere is somebody else's: ids are used again.
        """
        if self.listed is None:
            return dict.fromkeys(places, self)
        own: dict[str | None, list[Listed]] = {place: [] for place in places}
        for one in self.listed:
            own.setdefault(place_of(one.folder, places), []).append(one)
        return {place: Queue(self.asked_at, tuple(own[place]), self.error) for place in places}
