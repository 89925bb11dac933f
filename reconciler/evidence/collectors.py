"""The collectors: what an attempt's files, processes and queue tell, here or far away."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from reconciler.attempt import execution_host as machine
from reconciler.attempt.contract import UNTOLD, OfJob
from reconciler.attempt.execution_host import ExecutionHost
from reconciler.attempt.observed import Far, ObservedAttempt, ObservedJob
from reconciler.attempt.paths import AttemptPaths
from reconciler.far import ask
from reconciler.far.answer import FarJob, RemoteAnswer
from reconciler.host import processes
from reconciler.host import processes as plain
from reconciler.host.locks import is_held
from reconciler.host.processes import Tenant
from reconciler.host.program import Listed, Queue
from reconciler.records import traces


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


#: DPDispatcher's word for a job that it has not come to submit.
_UNSUBMITTED = 1


def here(attempt: AttemptPaths, where: ExecutionHost, survey: Survey) -> ObservedAttempt:
    """Return what is found of an attempt whose files lie on this machine."""
    tenants = processes.below(survey.census, Path(where.scratch))
    queue = survey.queues.get(os.path.realpath(where.scratch)) if where.has_slurm else None
    copies = traces.copies_below(Path(where.scratch))
    states = traces.states(copies)
    jobs = _jobs(attempt, copies, states, tenants, _by_id(queue))
    return ObservedAttempt(
        jobs=traces.recall(attempt, jobs),
        tenants=tenants,
        copies=tuple(copy.name for copy in copies),
        recovery_file=bool(states),
        backward_missing=traces.backward_missing(attempt, copies),
        queue=queue,
        awaited=traces.awaited(attempt),
    )


def there(attempt: AttemptPaths, survey: Survey) -> ObservedAttempt:
    """Return what is found of an attempt whose files lie on another machine."""
    answer = survey.answers[attempt.tag]
    if answer.error is not None:
        return ObservedAttempt(far=Far(answer.asked_at, answer.error))
    listed, live = _by_id(answer.queue), {tenant.pid for tenant in answer.tenants}
    alone = traces.alone(attempt)
    jobs = (_far_job(answer.jobs[name], listed, live, alone) for name in sorted(answer.jobs))
    missing = tuple(path for path in answer.absent if not _is_in_place(attempt, path))
    return ObservedAttempt(
        jobs=traces.recall(attempt, jobs),
        tenants=answer.tenants,
        copies=tuple(answer.copies),
        recovery_file=answer.has_recovery_file,
        backward_missing=missing,
        queue=answer.queue,
        far=_far(answer),
    )


def _far(answer: RemoteAnswer) -> Far:
    errors = tuple(text.strip() for text in answer.errors)
    return Far(answer.asked_at, None, answer.host, answer.boot_id, errors)


def _is_in_place(attempt: AttemptPaths, pattern: str) -> bool:
    return (attempt.root / pattern).exists() or any(attempt.root.glob(pattern))


def _by_id(queue: Queue | None) -> dict[str, Listed]:
    return {one.id: one for one in (queue.listed or ())} if queue is not None else {}


def _far_job(
    job: FarJob, listed: Mapping[str, Listed], live: set[int], alone: Sequence[str]
) -> ObservedJob:
    entry = listed.get(job.id or "")
    working = job.id is not None and job.id.isdigit() and int(job.id) in live and not listed
    found = ObservedJob(
        name=job.name,
        id=job.id,
        id_alive=entry.is_alive if entry is not None else working,
        started=job.started,
        exit_code=job.exit_code,
        ended_at=job.ended_at,
        lock_held=job.lock_held,
        tag=job.tag,
        failed_flag=job.failed_flag,
        state=job.state,
        fail_count=job.fail_count,
        command_code=job.command_code,
        queued=entry.state if entry is not None else None,
    )
    if job.name not in alone:
        return found
    return _alone(found, complete=job.is_complete, works=bool(live))


def _jobs(
    attempt: AttemptPaths,
    copies: Sequence[Path],
    states: Mapping[str, tuple[int, int]],
    tenants: Iterable[Tenant],
    listed: Mapping[str, Listed],
) -> tuple[ObservedJob, ...]:
    own = {job.name: job for job in traces.jobs(attempt)}
    ids = traces.job_ids(attempt, copies)
    live = {str(tenant.pid) for tenant in tenants}
    alone = traces.alone(attempt)
    submitted = {name for name, (state, _) in states.items() if state != _UNSUBMITTED}
    jobs = []
    for name in sorted({*own, *ids, *submitted}):
        job = ObservedJob(name, ids.get(name), lock_held=_lock(attempt, name))
        job = _with_own(job, own.get(name), ids.get(name) in live)
        job = _with_entry(job, listed.get(ids.get(name, "")))
        job = _with_dpdispatcher(job, copies, states.get(name))
        if name in alone:
            complete = traces.is_complete(attempt, copies, name)
            job = _alone(job, complete=complete, works=bool(live))
        # The flag of a task that was killed tells of the blow, not of its command.
        killed = job.failed_flag and (job.is_untold or traces.has_marks(attempt, name))
        jobs.append(replace(job, failed_flag=None) if killed else job)
    return tuple(jobs)


def _alone(job: ObservedJob, *, complete: bool, works: bool) -> ObservedJob:
    """Return a job whose command ran on without its shells; what it left tells that it is through.

    Not while anybody works there: a file that is there may still be written. Where a shell of it
    lived to tag the task as finished nothing is untold.
    """
    if job.tag:
        return job
    through = complete and job.exit_code in UNTOLD and job.lock_held is False and not works
    return replace(job, alone=True, tag=through)


def _lock(attempt: AttemptPaths, job: str) -> bool | None:
    """Say whether the job holds its lock; None where it wrote that it could not take one."""
    lock = traces.lock_of(attempt, job)
    return None if lock.with_suffix(OfJob.UNLOCKED).exists() else is_held(lock)


def _with_own(job: ObservedJob, own: traces.JobRecord | None, works: bool) -> ObservedJob:
    """Return the job with what it wrote down itself."""
    if own is None:
        return replace(job, id_alive=works)
    alive = own.shell.is_alive() if own.shell is not None else works
    return replace(
        job,
        id_alive=alive,
        started=True,
        exit_code=own.exit_code,
        ended_at=own.ended_at,
        command_code=own.command_code,
    )


def _with_entry(job: ObservedJob, entry: Listed | None) -> ObservedJob:
    """Return the job with what its scheduler says."""
    if entry is None:
        return job
    return replace(job, queued=entry.state, id_alive=entry.is_alive or job.id_alive)


def _with_dpdispatcher(
    job: ObservedJob, copies: Sequence[Path], state: tuple[int, int] | None
) -> ObservedJob:
    """Return the job with what DPDispatcher left in the scratch copy."""
    flag = _in_a_copy(copies, f"{job.name}_flag_if_job_task_fail")
    return replace(
        job,
        tag=any(traces.is_tagged(copy, job.name) for copy in copies),
        failed_flag=None if flag is None else plain.text(flag).strip() == "1",
        state=None if state is None else state[0],
        fail_count=None if state is None else state[1],
    )


def _in_a_copy(copies: Sequence[Path], name: str) -> Path | None:
    places = (copy / name for copy in copies)
    return next((place for place in places if place.exists()), None)
