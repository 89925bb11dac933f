"""Attempts that an approved amendment superseded: stopped, and seen to be."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from lifecycle.errors import Refused
from lifecycle.workflow import Attempt as Recorded
from lifecycle.workflow import Stage
from reconciler import processes, traces
from reconciler.attempt import Attempt
from reconciler.jobs import Jobs
from reconciler.locks import is_held
from reconciler.stop import stop_below
from service.place import was_here
from service.root import Root

#: Seconds that a killed monitor has to let go of its lock.
_WITHIN = 10.0


class NotStopped(Refused):
    """A superseded attempt that may still be at work."""

    code = "not_stopped"

    def __init__(self, stage: str, attempt: str, why: str) -> None:
        super().__init__(
            f"{stage}: {attempt} was superseded by an amendment and is not seen to be stopped: "
            f"{why}. Nothing is dispatched until it is; end it there and try again.",
            stage=stage,
            attempt=attempt,
        )


def stop_superseded(jobs: Jobs) -> None:
    """End what is left of every superseded attempt; raises `NotStopped` for one that goes on."""
    state = jobs.service.state()
    for stage in state.stages.values():
        newest = stage.attempt
        if newest is None or newest.outcome != "superseded":
            continue
        attempt = jobs.attempt(state, stage, newest.id)
        # An attempt's folder moves with its stage's only once the attempt is seen to be over.
        if attempt.folder.exists():
            with jobs.sole(stage.id):
                _stop(jobs.service.root, stage, newest, attempt)


def _stop(root: Root, stage: Stage, recorded: Recorded, attempt: Attempt) -> None:
    if recorded.root != str(attempt.root) and not was_here(root, recorded.root, recorded.host):
        # This root is a copy: what its files name is the original's, and is left alone.
        return
    if recorded.host not in (None, processes.host()):
        raise NotStopped(stage.id, recorded.id, f"it runs on {recorded.host}")
    if recorded.boot_id not in (None, processes.boot_id()):
        return
    # The monitor first: it would submit again what is killed under its eyes.
    _end_holders(attempt.monitor_lock)
    left = stop_below(traces.scratch_root(attempt))
    if left:
        pids = ", ".join(str(tenant.pid) for tenant in left)
        raise NotStopped(stage.id, recorded.id, f"processes {pids} do not end")
    locks = [attempt.monitor_lock, *attempt.folder.glob("job-*.lock")]
    held = [lock.name for lock in locks if is_held(lock) is not False]
    if held:
        raise NotStopped(stage.id, recorded.id, f"{', '.join(held)} is held or unreadable")


def _end_holders(lock: Path) -> None:
    """Kill whoever has the stage's monitor lock open: the monitor and the DPDispatcher it runs.

    Nobody else opens the file but for a look that lasts an instant, and a look takes no lock
    that would show here.
    """
    deadline = time.monotonic() + _WITHIN
    while is_held(lock) and time.monotonic() < deadline:
        for pid in _holders(lock):
            _kill(pid)
        time.sleep(0.05)


def _holders(lock: Path) -> list[int]:
    place = os.path.realpath(lock)
    pids = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
    return [pid for pid in pids if pid != os.getpid() and _has_open(pid, place)]


def _has_open(pid: int, place: str) -> bool:
    try:
        return any(str(fd.readlink()) == place for fd in Path(f"/proc/{pid}/fd").iterdir())
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        # Gone meanwhile, or another user's, who cannot hold a lock of this one's files for us.
        return False


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
