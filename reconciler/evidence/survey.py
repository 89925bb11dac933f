"""One look at what many attempts have in common: processes, the scheduler, other machines."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reconciler.attempt import execution_host as machine
from reconciler.attempt.execution_host import ExecutionHost
from reconciler.attempt.paths import AttemptPaths
from reconciler.far import ask
from reconciler.far.answer import RemoteAnswer
from reconciler.host import processes
from reconciler.host.processes import Tenant
from reconciler.host.scheduler import Queue


@dataclass(frozen=True, slots=True)
class Survey:
    """Every live process of this user, what the scheduler here says, and each far answer by tag.

    ``machines`` are those of the attempts, by tag; ``queues`` holds what the scheduler of this
    machine says, by the real path of the folder below which an attempt's jobs work.
    """

    machines: Mapping[str, ExecutionHost]
    census: Sequence[Tenant]
    queues: Mapping[str, Queue]
    answers: Mapping[str, RemoteAnswer]


def surveyed(attempts: Sequence[AttemptPaths]) -> Survey:
    """Ask each source once for all of the attempts.

    The scheduler and the processes come before the records that the attempts left, so that a job
    which ends meanwhile is seen as ended.
    """
    machines = {attempt.tag: machine.of(attempt) for attempt in attempts}
    own = machines.values()
    queued = {w.scratch for w in own if w.has_slurm and not w.is_far}
    places = {os.path.realpath(scratch) for scratch in queued}
    return Survey(
        machines=machines,
        queues=ask.queue_here(sorted(queued)).split(places) if queued else {},
        answers=ask.answers([one for one in attempts if machines[one.tag].is_far]),
        census=processes.census() if attempts else (),
    )
