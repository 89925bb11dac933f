"""Observations of an attempt, on this machine or on the machine of its jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.attempt.paths import FAULTS, SIGNALLED, UNTOLD
from reconciler.host.processes import Tenant
from reconciler.host.program import Queue

#: State number of DPDispatcher for a job whose task has finished successfully.
_STATE_FINISHED = 5


@dataclass(frozen=True, slots=True)
class ObservedJob:
    """Observations of one job.

    ``started``, ``exit_code`` and ``ended_at`` (ns) come from the job's own records, ``tag``,
    ``failed_flag`` and ``state`` from DPDispatcher. ``id_alive`` compares the start time too, not
    only the process id.
    """

    name: str
    id: str | None = None
    id_alive: bool | None = None
    started: bool = False
    exit_code: int | None = None
    ended_at: int | None = None
    lock_held: bool | None = False
    tag: bool = False
    failed_flag: bool | None = None
    state: int | None = None
    fail_count: int | None = None
    #: Exit code of the command if it was not 0. The exit code of the job is then always 1.
    command_code: int | None = None
    #: Whether the command kept running after its shells were killed.
    #: No shell recorded its end, so the expected output files decide whether the command succeeded.
    alone: bool = False
    #: Resources that the commands used, in the form that `used_in` returns, or None if unknown.
    used: Mapping[str, float] | None = None
    #: The current or last state of the job in the scheduler, or None.
    queued: str | None = None

    @property
    def is_over(self) -> bool:
        """Return whether the job itself recorded its end, with success or failure."""
        code = self.exit_code
        if code in FAULTS:
            # The command may still run if a fault ended only its shell.
            return self.lock_held is False
        return code is not None and code <= SIGNALLED

    @property
    def is_untold(self) -> bool:
        """Return whether the command outlived its shells and its result is unknown."""
        return self.alone and self.exit_code in UNTOLD

    @property
    def told_code(self) -> int | None:
        """The exit code to show to users: the exit code of the command if it is known."""
        return self.exit_code if self.command_code is None else self.command_code

    @property
    def is_finished(self) -> bool:
        """Return whether the job succeeded, by its own record or otherwise by DPDispatcher's."""
        if self.exit_code is not None:
            return self.exit_code == 0
        return self.tag or self.state == _STATE_FINISHED


@dataclass(frozen=True, slots=True)
class Far:
    """The answer of the machine of the jobs, if it is another machine.

    ``asked_at`` is in ns since the epoch by the clock of that machine, ``error`` is the reason why
    it did not answer, and ``errors`` the end of the jobs' stderr. ``refusal`` is a mistake that a
    person must correct: the connection is refused, or no folder can be created for the jobs.
    """

    asked_at: int
    error: str | None = None
    host: str | None = None
    boot_id: str | None = None
    errors: tuple[str, ...] = ()
    #: Whether the folder of the attempt exists on that machine.
    has_folder: bool = True
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class ObservedAttempt:
    """Observations of an attempt from files, processes and the queue, on any machine.

    ``scratch_refusal`` is the reason why no folder for the jobs can be created on this machine.
    ``complete`` names the jobs whose files to download were all written after their start. ``ends``
    maps the ids of jobs that Slurm ended to the states that Slurm printed into their output.
    """

    jobs: tuple[ObservedJob, ...] = ()
    tenants: tuple[Tenant, ...] | None = None
    copies: tuple[str, ...] = ()
    recovery_file: bool = False
    backward_missing: tuple[str, ...] = ()
    queue: Queue | None = None
    far: Far | None = None
    awaited: tuple[str, ...] = ()
    scratch_refusal: str | None = None
    complete: frozenset[str] = frozenset()
    ends: Mapping[str, str] = field(default_factory=dict)
