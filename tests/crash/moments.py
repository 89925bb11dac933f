"""Moments at which a test kills processes: observed short windows, or times."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

from tests.crash.support import Workflow

Moment = Callable[[Workflow], bool]
"""Returns whether the moment has come."""

#: Seconds between two checks whether the moment has come.
_LOOK = 0.001


def awaited(moment: Moment, workflow: Workflow, run: subprocess.Popen[str]) -> bool:
    """Wait for a moment, and return True. Return False if the run ended before."""
    while not moment(workflow):
        if run.poll() is not None:
            return False
        time.sleep(_LOOK)
    return True


def after(seconds: float) -> Moment:
    """Return a moment that comes after the given number of seconds."""
    end = time.monotonic() + seconds
    return lambda _: time.monotonic() >= end


def committed(type_: str, times: int = 1) -> Moment:
    """Return the moment at which an event is committed, before its files are written."""
    return lambda workflow: workflow.committed(type_) >= times


def _left(pattern: str) -> Moment:
    def left(workflow: Workflow) -> bool:
        return any(any(folder.glob(pattern)) for folder in workflow.attempts("stage-1"))

    return left


def _collected(workflow: Workflow) -> bool:
    """Return whether the results are collected and the exit code is not yet written."""
    return _left("job-*.exit")(workflow) and not _left("work/*/")(workflow)


def _coded(workflow: Workflow) -> bool:
    return (workflow.root / "stage-1/DPDISP_EXIT_CODE").exists()


def _verifying(workflow: Workflow) -> bool:
    return (workflow.root / "verifying").exists()


#: Each window lasts some milliseconds, and the kill happens at its start.
WINDOWS: dict[str, Moment] = {
    "the attempt is recorded and nothing runs": committed("attempt.started"),
    "the files are uploaded": _left("work/*/stage-1"),
    "the job is submitted and not written down": _left("work/*/*_job_id"),
    "the job has claimed its start": _left("job-*.started"),
    "the launch is recorded": committed("stage.launched"),
    "the job is over": _left("job-*.exit"),
    "the results are brought back": _collected,
    "the exit code is written": _coded,
    "the verdict is recorded": committed("attempt.observed"),
    "the end is recorded": committed("stage.computed"),
    "the verification runs": _verifying,
    "the first stage is completed": committed("stage.completed"),
    "the second attempt is recorded": committed("attempt.started", 2),
}
