"""How far an attempt under way is, in a line: how long, its last words, its place in the queue."""

from __future__ import annotations

import shutil
import subprocess
import time
from contextlib import closing, suppress

from lifecycle.state.workflow import Stage, Workflow
from reconciler.attempt import execution_host as machine
from reconciler.context import Jobs
from reconciler.errors import ReconcilerError

#: Characters of a job's last line that are shown.
_WIDE = 80
#: Seconds for the queue's answer, and between two questions to it.
_PATIENCE, _AGAIN = 5.0, 15.0
#: The jobs that wait, the first to run first, as Slurm orders them.
_WAITING = ("squeue", "--noheader", "--states=PENDING", "--format=%i", "--sort=-p,i")


class Progress:
    """Tells of attempts under way what this machine can say at once."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._asked_at: float | None = None
        self._waiting: list[str] = []

    def of(self, state: Workflow, stage: Stage, elapsed: str) -> str:
        """Return the line of a stage under way; ``elapsed`` is how long it has been."""
        place = self._place(state, stage)
        words = "" if place else last_words(self._jobs, state, stage)
        told = [f"{stage.id} {stage.status.value}, {elapsed}", place, words]
        return ": ".join(filter(None, told))

    def _place(self, state: Workflow, stage: Stage) -> str:
        """Return where its jobs stand among those that wait for Slurm here; or nothing."""
        ids = set(stage.attempts[-1].job_ids)
        if not ids or not is_in_slurm(self._jobs, state, stage):
            return ""
        if self._asked_at is None or time.monotonic() - self._asked_at > _AGAIN:
            self._waiting, self._asked_at = queue(), time.monotonic()
        places = [number for number, id_ in enumerate(self._waiting, 1) if id_ in ids]
        return f"place {min(places)} of {len(self._waiting)} in the queue" if places else ""


def is_in_slurm(jobs: Jobs, state: Workflow, stage: Stage) -> bool:
    """Whether its newest attempt was submitted to the Slurm of this machine."""
    with suppress(ReconcilerError, OSError):
        where = machine.of(jobs.attempt(state, stage, stage.attempts[-1].id))
        return where.has_slurm and not where.is_far
    return False


def queue() -> list[str]:
    """Return the ids of the jobs that wait, the first to run first; nothing without an answer."""
    if shutil.which(_WAITING[0]) is None:
        return []
    try:
        asked = subprocess.run(
            _WAITING, capture_output=True, text=True, timeout=_PATIENCE, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return asked.stdout.split()


def last_words(jobs: Jobs, state: Workflow, stage: Stage) -> str:
    """Return the last line that its jobs printed; nothing where they run elsewhere or are mute."""
    from reconciler.control.sayings import saying

    with suppress(ReconcilerError, OSError):
        with closing(saying(jobs, state, stage, stage.attempts[-1].id, err=False, last=1)) as heard:
            if heard.is_far:
                return ""
            lines = b"".join(said.content for said in heard.new()).decode(errors="replace")
        return " ".join(lines.split())[-_WIDE:]
    return ""
