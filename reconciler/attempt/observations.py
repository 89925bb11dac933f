"""Observations of an attempt's jobs, on this machine or on a remote machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.attempt.paths import FAULTS, SIGNALLED, UNTOLD
from reconciler.host.processes import FolderProcess
from reconciler.host.scheduler_jobs import Queue

#: State number with which DPDispatcher marks a job whose task has finished successfully.
_STATE_FINISHED = 5


@dataclass(frozen=True, slots=True)
class ObservedJob:
    """The observed state of one job of an attempt.

    The job's own records provide ``started``, ``exit_code`` and ``ended_at`` (in ns).
    DPDispatcher's files provide ``tag``, ``failed_flag`` and ``state``. ``id_alive`` states whether
    the process with the recorded id and the same start time is still running.
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
    #: Exit code of the job's command if it was not 0. The job itself then always exits with 1.
    command_code: int | None = None
    #: Whether the command kept running after its shells were killed. In this case no shell recorded
    #: its end, and the expected output files show whether the command succeeded.
    alone: bool = False
    #: Resources that the commands used, as `parse_resource_use` returns them. None if unknown.
    used: Mapping[str, float] | None = None
    #: Processes of the commands that still ran when the job ended, such as ``process 12 (bash)``.
    remaining: tuple[str, ...] = ()
    #: The current or last state of the job in the scheduler, or None.
    queued: str | None = None

    @property
    def is_over(self) -> bool:
        """Return whether the job itself recorded that it ended, successfully or not."""
        code = self.exit_code
        if code in FAULTS:
            # The crash may have ended only the shell. Its command is still running while the lock
            # is held.
            return self.lock_held is False
        return code is not None and code <= SIGNALLED

    @property
    def has_unknown_command_result(self) -> bool:
        """Return whether the result of a command that survived its shells is unknown."""
        return self.alone and self.exit_code in UNTOLD

    @property
    def shown_exit_code(self) -> int | None:
        """The exit code to show to users.

        This is the exit code of the command if it is known, otherwise the exit code of the job.
        """
        return self.exit_code if self.command_code is None else self.command_code

    @property
    def is_finished(self) -> bool:
        """Return whether the job succeeded.

        The job's own record decides. If it does not exist, the records of DPDispatcher decide.
        """
        if self.exit_code is not None:
            return self.exit_code == 0
        return self.tag or self.state == _STATE_FINISHED


@dataclass(frozen=True, slots=True)
class RemoteAnswer:
    """The answer of the remote machine on which an attempt's jobs run.

    ``asked_at`` is the time of the answer, in ns since the epoch by the clock of that machine.
    ``error`` is the reason why the machine did not answer. ``errors`` contains the last lines of
    the jobs' stderr. ``refusal`` is a mistake that a person must correct: the machine refused the
    connection, or no folder can be created for the jobs.
    """

    asked_at: int
    error: str | None = None
    host: str | None = None
    boot_id: str | None = None
    errors: tuple[str, ...] = ()
    #: Whether the folder of the attempt exists on the remote machine.
    has_folder: bool = True
    refusal: str | None = None

    @property
    def is_folder_missing(self) -> bool:
        """Return whether the remote machine answered that the attempt's folder does not exist."""
        return self.error is None and not self.has_folder


@dataclass(frozen=True, slots=True)
class ObservedAttempt:
    """Observations of an attempt: its files, its processes and the scheduler's queue.

    ``scratch_refusal`` is the reason why no folder for the jobs can be created on this machine.
    ``complete`` names the jobs for which every file to download was written after the job started.
    ``ends`` maps the ids of jobs that Slurm ended to the state that Slurm printed into their
    output.
    """

    jobs: tuple[ObservedJob, ...] = ()
    tenants: tuple[FolderProcess, ...] | None = None
    copies: tuple[str, ...] = ()
    recovery_file: bool = False
    backward_missing: tuple[str, ...] = ()
    queue: Queue | None = None
    far: RemoteAnswer | None = None
    awaited: tuple[str, ...] = ()
    scratch_refusal: str | None = None
    complete: frozenset[str] = frozenset()
    ends: Mapping[str, str] = field(default_factory=dict)
