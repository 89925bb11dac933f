"""The cells of the kill matrix: who is killed, when, and where the jobs run."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Target(StrEnum):
    """What one blow takes, and nothing beside it."""

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
    """Where the jobs run."""

    SHELL = "Shell"
    SLURM = "Slurm"
    SHELL_FAR = "Shell over SSH"
    SLURM_FAR = "Slurm over SSH"

    @property
    def is_far(self) -> bool:
        """Whether the jobs run on another machine."""
        return self in (Backend.SHELL_FAR, Backend.SLURM_FAR)

    @property
    def has_queue(self) -> bool:
        """Whether jobs wait for a scheduler."""
        return self in (Backend.SLURM, Backend.SLURM_FAR)


@dataclass(frozen=True, slots=True)
class Cell:
    """One blow."""

    backend: Backend
    when: When
    target: Target

    def __str__(self) -> str:
        return f"{self.backend}, {self.when}, {self.target}"

    @property
    def impossible(self) -> str | None:
        """Why nobody can strike this blow; None if somebody can."""
        if not self.backend.has_queue and self.when is When.PENDING:
            return "a shell starts a job at once: none is ever pending"
        return _ABSENT.get(self.target, {}).get(self.when)

    @property
    def ends_the_command(self) -> bool:
        """Whether the blow ends a computation that is not through."""
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
    """Return the cells of a backend; of the far ones those in which SSH plays a part."""
    moments = _FAR_MOMENTS if backend.is_far else tuple(When)
    targets = _FAR if backend.is_far else _NEAR
    return tuple(Cell(backend, when, target) for when in moments for target in targets)


EVERY: tuple[Cell, ...] = tuple(cell for backend in Backend for cell in _cells(backend))
POSSIBLE: tuple[Cell, ...] = tuple(cell for cell in EVERY if cell.impossible is None)

#: Each target and each moment at least once, on one backend or the other.
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
