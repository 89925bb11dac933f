"""Collect the evidence of an attempt from the disk, the locks, the processes and the scheduler."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reconciler.attempt import execution_host as machine
from reconciler.attempt import markers
from reconciler.attempt.execution_host import ExecutionHost
from reconciler.attempt.observed import ObservedAttempt, ObservedJob
from reconciler.attempt.paths import UNTOLD, AttemptPaths, OfJob
from reconciler.errors import ReconcilerError
from reconciler.evidence.evidence import Evidence, OutputEvidence, Presence
from reconciler.far import ask
from reconciler.host import processes
from reconciler.host import small_files as plain
from reconciler.host.processes import Host, Process, Tenant
from reconciler.host.program import EXCEEDED, TAKEN, Queue, end_printed, is_held
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
    answers: Mapping[str, ObservedAttempt]


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


def collect(
    attempt: AttemptPaths,
    now: str,
    *,
    recorded_root: str | None = None,
    recorded_host: str | None = None,
    recorded_boot: str | None = None,
    survey: Survey | None = None,
) -> Evidence:
    """Look at everything once; ``now`` is the caller's time, ISO 8601 in UTC.

    ``recorded_root`` and ``recorded_host`` are where the attempt was started as the log holds it,
    without them the launch record counts; ``recorded_boot`` is that host's. ``survey`` is one look
    at what attempts have in common, to be shared by many calls. Raises `OSError` where the
    attempt's folder cannot be read: that it seems to hold nothing then says nothing.
    """
    with suppress(FileNotFoundError):
        os.scandir(attempt.folder).close()
    survey = survey or surveyed([attempt])
    where = survey.machines[attempt.tag]
    record = attempt.launch_record
    launch, launched_at = traces.texts(traces.read_json(record)), traces.launched(attempt)
    name, boot_id = recorded_host or launch.get("host"), recorded_boot or launch.get("boot_id")
    began_on = Host(name, boot_id, launch.get("machine_id"))
    began_here = name is not None and began_on.is_here(attempt.root)
    locked, watcher = is_held(attempt.monitor_lock), _watcher(attempt)
    alive = None if watcher is None else watcher.is_alive()
    found = _there(attempt, survey) if where.is_far else _here(attempt, where, survey)
    return Evidence(
        observed_at=now,
        attempt=attempt.tag,
        root_recorded=recorded_root or launch.get("root"),
        root_now=str(attempt.root),
        host_recorded=processes.host() if began_here else began_on.name,
        host_now=processes.host(),
        boot_recorded=launch.get("boot_id"),
        boot_now=processes.boot_id(),
        launched_at=launched_at,
        monitor_locked=locked,
        monitor_alive=alive,
        monitor_stopped=watcher is not None and alive is True and processes.is_stopped(watcher.pid),
        session=None if locked or watcher else processes.is_live(attempt.session, os.environ),
        jobs=found.jobs,
        tenants=found.tenants,
        copies=found.copies,
        recovery_file=found.recovery_file,
        backward_missing=found.backward_missing,
        exit_marker=markers.exit_code(attempt),
        done_marker=markers.read(attempt.done_marker, attempt.tag),
        outputs=tuple(_output(attempt, path) for path in attempt.outputs),
        scheduler=where.batch_type if where.has_scheduler else None,
        queue=found.queue,
        far=found.far,
        awaited=found.awaited,
        stopped=() if where.is_far else _stopped(found.tenants),
    )


def _stopped(tenants: Sequence[Tenant] | None) -> tuple[int, ...]:
    """Return the processes of the jobs that were told to stop where they are."""
    return tuple(one.pid for one in tenants or () if processes.is_stopped(one.pid))


#: DPDispatcher's word for a job that it has not come to submit.
_UNSUBMITTED = 1


def _here(attempt: AttemptPaths, where: ExecutionHost, survey: Survey) -> ObservedAttempt:
    """Return what is found of an attempt whose files lie on this machine."""
    tenants = processes.below(survey.census, Path(where.scratch))
    queue = survey.queues.get(os.path.realpath(where.scratch)) if where.has_slurm else None
    copies = traces.copies_below(Path(where.scratch))
    states = traces.states(copies)
    known = _jobs(attempt, copies, states, {str(tenant.pid) for tenant in tenants})
    alone = traces.alone(attempt)
    complete = frozenset(name for name in alone if traces.is_complete(attempt, copies, name))
    # The flag of a task that was killed tells of the blow, not of its command.
    jobs = (
        replace(job, failed_flag=None)
        if job.failed_flag and (job.is_untold or traces.has_marks(attempt, job.name))
        else job
        for job in _listed(attempt, known, queue, complete, works=bool(tenants))
    )
    if where.has_slurm:
        jobs = (_with_own_end(job, copies) for job in jobs)
    return ObservedAttempt(
        jobs=traces.recall(attempt, jobs),
        tenants=tenants,
        copies=tuple(copy.name for copy in copies),
        recovery_file=bool(states),
        backward_missing=traces.backward_missing(attempt, copies),
        queue=queue,
        awaited=traces.awaited(attempt),
    )


def _with_own_end(job: ObservedJob, copies: Sequence[Path]) -> ObservedJob:
    """Return the job; if it failed, with the reason that Slurm printed into the job's output."""
    if job.id is None or job.exit_code == 0 or job.id_alive or job.queued in EXCEEDED | TAKEN:
        return job
    ends = (end_printed(traces.end_of(copy / f"slurm-{job.id}.out")) for copy in copies)
    return replace(job, queued=next(filter(None, ends), job.queued))


def _there(attempt: AttemptPaths, survey: Survey) -> ObservedAttempt:
    """Return what is found of an attempt whose files lie on another machine."""
    answer = survey.answers[attempt.tag]
    if answer.far is None or answer.far.error is not None:
        return answer
    live = {str(tenant.pid) for tenant in answer.tenants or ()}
    asked = answer.queue is not None and bool(answer.queue.listed)
    told = {job.name for job in answer.jobs}
    # The log of DPDispatcher here names the submitted jobs, also after the folder was removed.
    submitted = [
        ObservedJob(name, id=id_)
        for name, id_ in traces.job_ids(attempt, ()).items()
        if name not in told and not answer.far.has_folder
    ]
    jobs_there = (*answer.jobs, *submitted)
    known = (replace(job, id_alive=job.id in live and not asked) for job in jobs_there)
    jobs = _listed(attempt, known, answer.queue, answer.complete, works=bool(live))
    missing = (
        path
        for path in answer.backward_missing
        if not ((attempt.root / path).exists() or any(attempt.root.glob(path)))
    )
    return replace(answer, jobs=traces.recall(attempt, jobs), backward_missing=tuple(missing))


def _listed(
    attempt: AttemptPaths,
    jobs: Iterable[ObservedJob],
    queue: Queue | None,
    complete: frozenset[str],
    *,
    works: bool,
) -> Iterator[ObservedJob]:
    """Yield the jobs by name, with what their scheduler says.

    Of a command that ran on without its shells, what it left tells that it is through. Not while
    anybody ``works`` there: a file that is there may still be written. Where a shell of it lived to
    tag the task as finished nothing is untold.
    """
    listed = {one.id: one for one in (queue.listed or ())} if queue is not None else {}
    alone = traces.alone(attempt)
    for job in sorted(jobs, key=lambda one: one.name):
        entry, said = listed.get(job.id or ""), dict[str, Any]()
        if entry is not None:
            said |= {"queued": entry.state, "id_alive": entry.is_alive or job.id_alive}
        if job.name in alone and not job.tag:
            ended = job.exit_code in UNTOLD and job.lock_held is False and not works
            said |= {"alone": True, "tag": ended and job.name in complete}
        yield replace(job, **said)


def _jobs(
    attempt: AttemptPaths,
    copies: Sequence[Path],
    states: Mapping[str, tuple[int, int]],
    live: set[str],
) -> Iterator[ObservedJob]:
    """Yield what the jobs wrote down themselves, and what DPDispatcher left in the scratch copy."""
    own = {job.name: (job, shell) for job, _, shell in traces.started(attempt)}
    ids = traces.job_ids(attempt, copies)
    submitted = {name for name, (state, _) in states.items() if state != _UNSUBMITTED}
    for name in {*own, *ids, *submitted}:
        told, shell = own.get(name, (ObservedJob(name), None))
        id_, (state, fail_count) = ids.get(name), states.get(name, (None, None))
        flags = (copy / f"{name}_flag_if_job_task_fail" for copy in copies)
        flag = next((place for place in flags if place.exists()), None)
        lock = attempt.of_job(name, OfJob.LOCK)
        # Where it wrote that it could not take its lock nothing tells whether it holds it.
        unlocked = lock.with_suffix(OfJob.UNLOCKED).exists()
        yield replace(
            told,
            id=id_,
            id_alive=shell.is_alive() if shell is not None else id_ in live,
            lock_held=None if unlocked else is_held(lock),
            tag=any(traces.is_tagged(copy, name) for copy in copies),
            failed_flag=None if flag is None else plain.text(flag).strip() == "1",
            state=state,
            fail_count=fail_count,
        )


def with_digests(root: Path, evidence: Evidence) -> Evidence:
    """Return the evidence with what its outputs are by their digest; of a folder by all files."""
    return replace(evidence, outputs=tuple(_digested(root, one) for one in evidence.outputs))


def _digested(root: Path, output: OutputEvidence) -> OutputEvidence:
    with suppress(OSError, ReconcilerError):
        _, sha256 = markers.digest_below(root / output.path, output.path)
        times = [file.stat().st_mtime_ns for file in (root / output.path).rglob("*")]
        return replace(output, sha256=sha256, mtime=max([*times, output.mtime or 0]))
    return output


def _watcher(attempt: AttemptPaths) -> Process | None:
    match traces.read_json(attempt.monitor_record):
        case {"pid": int(pid), "ticks": int(ticks), "boot_id": str(boot_id)}:
            return Process(pid, ticks, boot_id)
    return None


def _output(attempt: AttemptPaths, path: str) -> OutputEvidence:
    try:
        found = (attempt.root / path).stat()
    except (FileNotFoundError, NotADirectoryError):
        return OutputEvidence(path, Presence.MISSING)
    presence = Presence.PRESENT if found.st_size else Presence.EMPTY
    new = traces.is_new(attempt, path)
    return OutputEvidence(path, presence, new, found.st_size, found.st_mtime_ns)


def note_alone(attempt: AttemptPaths, evidence: Evidence) -> None:
    """Write down which jobs of the attempt are seen to compute without their shells.

    Nobody is left to write down how such a command ends. A shell that was left after all, and has
    told of the end, takes that back.
    """
    unasked = evidence.scheduler is not None and evidence.queue is None
    knows = evidence.silence is None and not unasked
    for job in evidence.jobs:
        place = attempt.of_job(job.name, OfJob.ALONE)
        if knows and job.started and job.id is not None and job.lock_held and not job.id_alive:
            place.touch()
        if job.tag and not job.alone:
            place.unlink(missing_ok=True)
