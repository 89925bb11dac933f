"""Collect the evidence on an attempt (one run of a stage's job).

The evidence comes from files, locks, processes and the scheduler.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reconciler.attempt import execution_host as machine
from reconciler.attempt import file_digests, markers
from reconciler.attempt.execution_host import ExecutionHost
from reconciler.attempt.observations import ObservedAttempt, ObservedJob
from reconciler.attempt.paths import ATTEMPT, UNTOLD, AttemptPaths, JobRecordSuffix
from reconciler.errors import ReconcilerError
from reconciler.evidence.evidence import Evidence, OutputEvidence, Presence
from reconciler.far import query_machine
from reconciler.host import processes, tmux_sessions
from reconciler.host import small_files as plain
from reconciler.host.file_locks import is_lock_held
from reconciler.host.processes import FolderProcess, Host, Process
from reconciler.host.scheduler_jobs import EXCEEDED, TAKEN, Queue, find_printed_slurm_state
from reconciler.records import backward_files, traces
from service.root.folder_entries import exists, stat_of


@dataclass(frozen=True, slots=True)
class Survey:
    """Answers of sources that are queried once for many attempts.

    ``census`` contains the processes of the user. ``machines`` maps the tag of an attempt to the
    machine of its jobs. ``queues`` contains the answers of the local scheduler, by the real path of
    the folder in which the jobs of an attempt work. ``answers`` contains the observations from
    remote machines, by tag. ``is_fresh`` states that no earlier answer of a scheduler was reused.
    """

    machines: Mapping[str, ExecutionHost]
    census: Sequence[FolderProcess]
    queues: Mapping[str, Queue]
    answers: Mapping[str, ObservedAttempt]
    is_fresh: bool = False


def survey_attempts(attempts: Sequence[AttemptPaths], *, fresh: bool = False) -> Survey:
    """Query the processes, the scheduler and each remote machine once for all attempts.

    Each scheduler is asked at most once in the query interval, and its last answer is used until
    then. With ``fresh``, it is asked now.

    The caller reads the records of the attempts afterwards. A job that ends in between is then seen
    as ended and not as missing.
    """
    machines = {attempt.tag: machine.load_execution_host(attempt) for attempt in attempts}
    own = machines.values()
    queued = [w for w in own if w.has_slurm and not w.is_far]
    places = {os.path.realpath(w.scratch) for w in queued}
    return Survey(
        machines=machines,
        queues=_query_local_queue(queued, fresh=fresh).split(places) if queued else {},
        answers=query_machine.observe_far_attempts(
            [one for one in attempts if machines[one.tag].is_far], fresh=fresh
        ),
        census=processes.list_user_processes() if attempts else (),
        is_fresh=fresh,
    )


def _query_local_queue(hosts: Sequence[ExecutionHost], *, fresh: bool) -> Queue:
    interval = 0 if fresh else min(one.query_interval for one in hosts)
    return query_machine.query_local_queue(sorted({one.scratch for one in hosts}), interval)


def collect_evidence(
    attempt: AttemptPaths,
    now: str,
    *,
    recorded_root: str | None = None,
    recorded_host: str | None = None,
    recorded_boot: str | None = None,
    survey: Survey | None = None,
) -> Evidence:
    """Collect the evidence on an attempt once, and return it.

    ``now`` is the current time in ISO 8601, UTC. ``recorded_root``, ``recorded_host`` and
    ``recorded_boot`` are the folder, the host and the boot id of the attempt's start, as in the
    log. Without them, the launch record of the attempt is used. ``survey`` contains answers that
    were queried for many attempts together. Raises `OSError` if the attempt's folder exists but
    cannot be read, because it would otherwise look empty.
    """
    with suppress(FileNotFoundError):
        os.scandir(attempt.folder).close()
    survey = survey or survey_attempts([attempt])
    where = survey.machines[attempt.tag]
    launch = _read_launch(attempt, where)
    name, boot_id = recorded_host or launch.get("host"), recorded_boot or launch.get("boot_id")
    began_on = Host(name, boot_id, launch.get("machine_id"))
    began_here = name is not None and began_on.is_here(attempt.root)
    locked, watcher = is_lock_held(attempt.monitor_lock), _read_monitor(attempt)
    alive = None if watcher is None else watcher.is_alive()
    found = _observe_far(attempt, survey) if where.is_far else _observe_here(attempt, where, survey)
    return Evidence(
        observed_at=now,
        attempt=attempt.tag,
        root_recorded=recorded_root or launch.get("root"),
        root_now=str(attempt.root),
        host_recorded=processes.host() if began_here else began_on.name,
        host_now=processes.host(),
        boot_recorded=launch.get("boot_id"),
        boot_now=processes.boot_id(),
        launched_at=traces.read_launch_time(attempt),
        monitor_locked=locked,
        monitor_alive=alive,
        monitor_stopped=watcher is not None
        and alive is True
        and processes.is_process_paused(watcher.pid),
        session=None if locked or watcher else tmux_sessions.is_live(attempt.session, os.environ),
        jobs=found.jobs,
        tenants=found.tenants,
        copies=found.copies,
        recovery_file=found.recovery_file,
        backward_missing=found.backward_missing,
        exit_marker=markers.read_exit_code_marker(attempt),
        done_marker=markers.read_marker(attempt.done_marker, attempt.tag),
        outputs=tuple(_observe_output(attempt, path) for path in attempt.outputs),
        scheduler=where.batch_type if where.has_scheduler else None,
        queue=found.queue,
        far=found.far,
        awaited=found.awaited,
        scratch_refusal=found.scratch_refusal,
        submission_tried=_is_tried_folder_missing(attempt, found),
        stopped=() if where.is_far else _find_stopped_processes(found.tenants),
    )


def _read_launch(attempt: AttemptPaths, where: ExecutionHost) -> dict[str, str]:
    """Return the launch record, or the host of the job's claim to start if there is no record."""
    found = traces.select_text_values(traces.read_json(attempt.launch_record))
    # A scheduler starts jobs on other hosts than the host of the launch.
    return found if found or where.has_scheduler else traces.read_host_of_claim(attempt)


def _is_tried_folder_missing(attempt: AttemptPaths, found: ObservedAttempt) -> bool:
    """Return whether DPDispatcher was called with a far folder that no longer exists."""
    is_missing = found.far is not None and found.far.is_folder_missing
    return is_missing and attempt.place_record.exists() and traces.may_be_submitted(attempt)


def _find_stopped_processes(tenants: Sequence[FolderProcess] | None) -> tuple[int, ...]:
    """Return the ids of the jobs' processes that the signal SIGSTOP has paused."""
    return tuple(one.pid for one in tenants or () if processes.is_process_paused(one.pid))


#: State number with which DPDispatcher marks a job that is not submitted yet.
_UNSUBMITTED = 1


def _observe_here(attempt: AttemptPaths, where: ExecutionHost, survey: Survey) -> ObservedAttempt:
    """Collect the observations of an attempt whose files are on this machine."""
    tenants = processes.find_processes_below(survey.census, Path(where.scratch))
    if not attempt.folder.is_dir() and attempt.start_claims_folder.is_dir():
        tenants += _find_processes_elsewhere(attempt, tenants)
    queue = survey.queues.get(os.path.realpath(where.scratch)) if where.has_slurm else None
    copies = traces.list_copies_in_folder(Path(where.scratch))
    states = traces.read_job_states(copies)
    known = _read_jobs(attempt, copies, states, {str(tenant.pid) for tenant in tenants})
    alone = traces.list_orphaned_jobs(attempt)
    complete = frozenset(
        name for name in alone if backward_files.has_complete_results(attempt, copies, name)
    )
    # The failure flag of a task whose shell was killed only reports the kill. It shows nothing
    # about the result of the command.
    jobs = (
        replace(job, failed_flag=None)
        if job.failed_flag
        and (job.has_unknown_command_result or traces.has_task_marks(attempt, job.name))
        else job
        for job in _add_queue_entries(attempt, known, queue, complete, works=bool(tenants))
    )
    if where.has_slurm:
        jobs = (_add_printed_end_state(job, _find_printed_end_states(job, copies)) for job in jobs)
    return ObservedAttempt(
        jobs=traces.add_recorded_ends(attempt, jobs),
        tenants=tenants,
        copies=tuple(copy.name for copy in copies),
        recovery_file=bool(states),
        backward_missing=backward_files.find_unmatched_backward_patterns(attempt, copies),
        queue=queue,
        awaited=traces.describe_remaining_processes(attempt),
        scratch_refusal=machine.find_scratch_folder_obstacle(where.scratch, attempt),
    )


def _find_processes_elsewhere(
    attempt: AttemptPaths, known: Sequence[FolderProcess]
) -> tuple[FolderProcess, ...]:
    """Return the processes of an attempt that work outside of its folder, except the known ones.

    The attempt's folder was removed together with its locks, so only a variable in their
    environment shows these processes.
    """
    pids = {one.pid for one in known}
    found = processes.find_processes_with(f"{ATTEMPT}={attempt.tag}")
    return tuple(
        FolderProcess(one.pid, one.ticks, str(attempt.work), deleted=True)
        for one in found
        if one.pid not in pids
    )


def _find_printed_end_states(job: ObservedJob, copies: Sequence[Path]) -> Mapping[str, str]:
    """Return the end state that Slurm printed into the output of a job, by the job's id.

    The dict is empty if Slurm printed none.
    """
    ends = (
        find_printed_slurm_state(traces.read_file_end(copy / f"slurm-{job.id}.out"))
        for copy in copies
    )
    found = next(filter(None, ends), None)
    return {} if found is None else {str(job.id): found}


def _add_printed_end_state(job: ObservedJob, ends: Mapping[str, str]) -> ObservedJob:
    """Return the job, with the end state from its own output if it failed."""
    if job.id is None or job.exit_code == 0 or job.id_alive or job.queued in EXCEEDED | TAKEN:
        return job
    return replace(job, queued=ends.get(job.id, job.queued))


def _observe_far(attempt: AttemptPaths, survey: Survey) -> ObservedAttempt:
    """Collect the observations of an attempt whose files are on another machine."""
    answer = survey.answers[attempt.tag]
    if answer.far is None or answer.far.error is not None:
        return answer
    live = {str(tenant.pid) for tenant in answer.tenants or ()}
    asked = answer.queue is not None and bool(answer.queue.listed)
    told = {job.name for job in answer.jobs}
    # If the folder on the other machine was removed, only DPDispatcher's log on this machine still
    # names the submitted jobs.
    submitted = [
        ObservedJob(name, id=id_)
        for name, id_ in traces.read_scheduler_job_ids(attempt, ()).items()
        if name not in told and not answer.far.has_folder
    ]
    jobs_there = (*answer.jobs, *submitted)
    known = (replace(job, id_alive=job.id in live and not asked) for job in jobs_there)
    listed = _add_queue_entries(attempt, known, answer.queue, answer.complete, works=bool(live))
    jobs = (_add_printed_end_state(job, answer.ends) for job in listed)
    missing = (
        path
        for path in answer.backward_missing
        if not (exists(attempt.root / path) or any(attempt.root.glob(path)))
    )
    return replace(
        answer, jobs=traces.add_recorded_ends(attempt, jobs), backward_missing=tuple(missing)
    )


def _add_queue_entries(
    attempt: AttemptPaths,
    jobs: Iterable[ObservedJob],
    queue: Queue | None,
    complete: frozenset[str],
    *,
    works: bool,
) -> Iterator[ObservedJob]:
    """Yield the jobs, sorted by name, with the state that their scheduler reports.

    For a command that kept running after its shells were killed, complete output files show that it
    has ended. They do not show this if a process still ``works`` in the folder, because it may
    write more.
    """
    listed = {one.id: one for one in (queue.listed or ())} if queue is not None else {}
    alone = traces.list_orphaned_jobs(attempt)
    for job in sorted(jobs, key=lambda one: one.name):
        entry, said = listed.get(job.id or ""), dict[str, Any]()
        if entry is not None:
            said |= {"queued": entry.state, "id_alive": entry.is_alive or job.id_alive}
        if job.name in alone and not job.tag:
            ended = job.exit_code in UNTOLD and job.lock_held is False and not works
            said |= {"alone": True, "tag": ended and job.name in complete}
        yield replace(job, **said)


def _read_jobs(
    attempt: AttemptPaths,
    copies: Sequence[Path],
    states: Mapping[str, tuple[int, int]],
    live: set[str],
) -> Iterator[ObservedJob]:
    """Yield the jobs of an attempt, read from their records and DPDispatcher's files."""
    own = {job.name: (job, shell) for job, _, shell in traces.iterate_started_jobs(attempt)}
    ids = traces.read_scheduler_job_ids(attempt, copies)
    submitted = {name for name, (state, _) in states.items() if state != _UNSUBMITTED}
    for name in {*own, *ids, *submitted}:
        told, shell = own.get(name, (ObservedJob(name), None))
        id_, (state, fail_count) = ids.get(name), states.get(name, (None, None))
        flags = (copy / f"{name}_flag_if_job_task_fail" for copy in copies)
        flag = next((place for place in flags if place.exists()), None)
        lock = attempt.job_record_path(name, JobRecordSuffix.LOCK)
        # The job recorded that it runs without its lock, so a free lock does not show that the job
        # has ended.
        unlocked = lock.with_suffix(JobRecordSuffix.UNLOCKED).exists()
        yield replace(
            told,
            id=id_,
            id_alive=shell.is_alive() if shell is not None else id_ in live,
            lock_held=None if unlocked else is_lock_held(lock),
            tag=any(traces.is_tagged(copy, name) for copy in copies),
            failed_flag=None if flag is None else plain.read_text(flag).strip() == "1",
            state=state,
            fail_count=fail_count,
        )


def with_digests(root: Path, evidence: Evidence) -> Evidence:
    """Return the evidence with a digest for each output of the stage.

    The digest of a folder covers all its files.
    """
    return replace(evidence, outputs=tuple(_add_digest(root, one) for one in evidence.outputs))


def _add_digest(root: Path, output: OutputEvidence) -> OutputEvidence:
    with suppress(OSError, ReconcilerError):
        _, sha256 = file_digests.compute_size_and_digest(root / output.path, output.path)
        found = map(stat_of, (root / output.path).rglob("*"))
        times = [one.st_mtime_ns for one in found if one is not None]
        return replace(output, sha256=sha256, mtime=max([*times, output.mtime or 0]))
    return output


def _read_monitor(attempt: AttemptPaths) -> Process | None:
    match traces.read_json(attempt.monitor_record):
        case {"pid": int(pid), "ticks": int(ticks), "boot_id": str(boot_id)}:
            return Process(pid, ticks, boot_id)
    return None


def _observe_output(attempt: AttemptPaths, path: str) -> OutputEvidence:
    found = stat_of(attempt.root / path)
    if found is None:
        return OutputEvidence(path, Presence.MISSING)
    presence = Presence.PRESENT if found.st_size else Presence.EMPTY
    new = traces.is_output_new(attempt, path)
    return OutputEvidence(path, presence, new, found.st_size, found.st_mtime_ns)


def record_orphaned_jobs(attempt: AttemptPaths, evidence: Evidence) -> None:
    """Record each job of the attempt whose command runs although its shells were killed.

    No shell can record how such a command ends. If a shell survived and recorded the end after all,
    the note about the job is removed.
    """
    unasked = evidence.scheduler is not None and evidence.queue is None
    knows = evidence.missing_answer_reason is None and not unasked
    for job in evidence.jobs:
        place = attempt.job_record_path(job.name, JobRecordSuffix.ALONE)
        if knows and job.started and job.id is not None and job.lock_held and not job.id_alive:
            place.touch()
        if job.tag and not job.alone:
            place.unlink(missing_ok=True)
