"""Ending the processes of an attempt, and seeing that they are gone."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from reconciler import processes
from reconciler.processes import Tenant

#: Seconds that killed processes have to be gone.
_WITHIN = 10.0


def stop_below(folder: Path, within: float = _WITHIN) -> tuple[Tenant, ...]:
    """Kill every process that works in ``folder`` or below it; return those that are left.

    Only processes of an attempt work below its scratch folder, so nobody else is hit, and no
    process group is: a group may hold a person's shell. A process is told by its id and its start
    time. Looks again until none is left, since a process may start another while it is killed.
    """
    deadline = time.monotonic() + within
    while (left := processes.below(processes.census(), folder)) and time.monotonic() < deadline:
        for tenant in left:
            _kill(tenant)
        time.sleep(0.05)
    return left


def _kill(tenant: Tenant) -> None:
    if processes.start_ticks(tenant.pid) != tenant.ticks:
        return
    try:
        os.kill(tenant.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
