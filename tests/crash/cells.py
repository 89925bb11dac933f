"""The cells of the kill matrix: the victim, the moment, and the backend of the jobs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Target(StrEnum):
    """The processes or connections that one kill ends."""

    MONITOR = "monitor"
    WRAPPER = "wrapper"
    TMUX_SESSION = "tmux session"
    TMUX_SERVER = "tmux server"
    JOB_SHELL = "job shell"
    COMMAND = "job's command"
    ORCHESTRATOR = "orchestrator"
    EVERYTHING = "everything"
    CONNECTION = "SSH connection"
    SSHD = "sshd and its connections"
    EVERYTHING_NEAR = "everything near"


class When(StrEnum):
    """The moments in the life of an attempt, in order."""

    BEFORE_UPLOAD = "before upload"
    SUBMITTED = "after submit and before the recovery file"
    PENDING = "while pending"
    RUNNING = "running"
    ENDED = "after the task and before collection"
    COLLECTED = "between collection and exit code"
    CODED = "between exit code and DONE"


class Backend(StrEnum):
    """The backends that run the jobs."""

    SHELL = "Shell"
    SLURM = "Slurm"
    SHELL_FAR = "Shell over SSH"
    SLURM_FAR = "Slurm over SSH"

    @property
    def is_far(self) -> bool:
        """Return whether the jobs run on another machine."""
        return self in (Backend.SHELL_FAR, Backend.SLURM_FAR)

    @property
    def has_queue(self) -> bool:
        """Return whether a scheduler queues the jobs."""
        return self in (Backend.SLURM, Backend.SLURM_FAR)


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the kill matrix: a victim, a moment and a backend."""

    backend: Backend
    when: When
    target: Target

    def __str__(self) -> str:
        return f"{self.backend}, {self.when}, {self.target}"

    @property
    def impossible(self) -> str | None:
        """Return the reason why this cell is impossible, or None."""
        if not self.backend.has_queue and self.when is When.PENDING:
            return "a shell starts a job at once: none is ever pending"
        return _ABSENT.get(self.target, {}).get(self.when)

    @property
    def ends_the_command(self) -> bool:
        """Return whether the kill ends an unfinished computation."""
        computing = self.when in (When.SUBMITTED, When.RUNNING)
        return computing and self.target in (Target.COMMAND, Target.EVERYTHING)


_NOT_YET = "no job was submitted yet"
_WAITS = "the job has not started"
_OVER = "the job is over"
_ABSENT: dict[Target, dict[When, str]] = {
    Target.JOB_SHELL: {
        When.BEFORE_UPLOAD: _NOT_YET,
        When.PENDING: _WAITS,
        When.COLLECTED: _OVER,
        When.CODED: _OVER,
    },
    Target.COMMAND: {
        When.BEFORE_UPLOAD: _NOT_YET,
        When.PENDING: _WAITS,
        When.ENDED: "the command is over",
        When.COLLECTED: _OVER,
        When.CODED: _OVER,
    },
}

_NEAR = tuple(Target)[: tuple(Target).index(Target.CONNECTION)]
_FAR = (
    Target.MONITOR,
    Target.ORCHESTRATOR,
    Target.CONNECTION,
    Target.SSHD,
    Target.JOB_SHELL,
    Target.EVERYTHING_NEAR,
)
_FAR_MOMENTS = (When.PENDING, When.RUNNING, When.ENDED)


def _cells(backend: Backend) -> tuple[Cell, ...]:
    """Return the cells of a backend. A remote backend has only the cells that involve SSH."""
    moments = _FAR_MOMENTS if backend.is_far else tuple(When)
    targets = _FAR if backend.is_far else _NEAR
    return tuple(Cell(backend, when, target) for when in moments for target in targets)


EVERY: tuple[Cell, ...] = tuple(cell for backend in Backend for cell in _cells(backend))
POSSIBLE: tuple[Cell, ...] = tuple(cell for cell in EVERY if cell.impossible is None)

#: A selection of cells in which each victim and each moment occurs at least once, on any backend.
FEW: tuple[Cell, ...] = (
    Cell(Backend.SHELL, When.BEFORE_UPLOAD, Target.WRAPPER),
    Cell(Backend.SHELL, When.SUBMITTED, Target.TMUX_SERVER),
    Cell(Backend.SLURM, When.SUBMITTED, Target.MONITOR),
    Cell(Backend.SLURM, When.PENDING, Target.EVERYTHING),
    Cell(Backend.SHELL, When.RUNNING, Target.JOB_SHELL),
    Cell(Backend.SLURM, When.RUNNING, Target.COMMAND),
    Cell(Backend.SLURM, When.ENDED, Target.TMUX_SESSION),
    Cell(Backend.SHELL, When.COLLECTED, Target.ORCHESTRATOR),
    Cell(Backend.SHELL, When.CODED, Target.EVERYTHING),
    Cell(Backend.SHELL_FAR, When.RUNNING, Target.CONNECTION),
    Cell(Backend.SLURM_FAR, When.ENDED, Target.SSHD),
)
