"""What was seen of an attempt, here or where its jobs run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from reconciler.attempt.paths import FAULTS, SIGNALLED, UNTOLD
from reconciler.host.processes import Tenant
from reconciler.host.program import Queue

#: DPDispatcher's word for a job whose task has ended well.
_STATE_FINISHED = 5


@dataclass(frozen=True, slots=True)
class ObservedJob:
    """What is known of one job.

    ``started``, ``exit_code`` and ``ended_at`` (ns) are the job's own records, ``tag``,
    ``failed_flag`` and ``state`` DPDispatcher's. ``id_alive`` goes by start time, not id alone.
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
    #: The command's own exit code where that was not 0: the job's is 1 for any of them.
    command_code: int | None = None
    #: Whether it was seen to compute on after its shells were killed, so that nobody was left to
    #: write down how it ended; what it was to bring back tells.
    alone: bool = False
    #: What its commands used, as `used_in` has it; None if nothing tells.
    used: Mapping[str, float] | None = None
    #: What the scheduler calls it, or called it last where it had ended it; else None.
    queued: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether it wrote of its own accord that it is through, well or badly."""
        code = self.exit_code
        if code in FAULTS:
            # Its command may live on where a fault ended the shell alone.
            return self.lock_held is False
        return code is not None and code <= SIGNALLED

    @property
    def is_untold(self) -> bool:
        """Whether its command ran on without its shells, and nothing says how it ended."""
        return self.alone and self.exit_code in UNTOLD

    @property
    def told_code(self) -> int | None:
        """The exit code to tell people: the command's own where it is known."""
        return self.exit_code if self.command_code is None else self.command_code

    @property
    def is_finished(self) -> bool:
        """Whether it ended well, by its own record or else by DPDispatcher's."""
        if self.exit_code is not None:
            return self.exit_code == 0
        return self.tag or self.state == _STATE_FINISHED


@dataclass(frozen=True, slots=True)
class Far:
    """What the machine of the jobs answered, where that is another one.

    ``asked_at`` is in ns since the epoch by its own clock, ``error`` says why there was no
    answer, ``errors`` holds the end of what the jobs wrote on stderr. ``refusal`` is the mistake
    that a person must correct: the connection is refused, or no folder can be made for the jobs.
    """

    asked_at: int
    error: str | None = None
    host: str | None = None
    boot_id: str | None = None
    errors: tuple[str, ...] = ()
    #: Whether the attempt's folder exists there.
    has_folder: bool = True
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class ObservedAttempt:
    """What the files, processes and the queue tell, wherever they are.

    ``complete`` names the jobs of which every file to bring back was written since their start.
    """

    jobs: tuple[ObservedJob, ...] = ()
    tenants: tuple[Tenant, ...] | None = None
    copies: tuple[str, ...] = ()
    recovery_file: bool = False
    backward_missing: tuple[str, ...] = ()
    queue: Queue | None = None
    far: Far | None = None
    awaited: tuple[str, ...] = ()
    complete: frozenset[str] = frozenset()
