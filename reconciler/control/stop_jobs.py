"""Retry failed stages, check claims about attempts, and stop the processes of attempts."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lifecycle.errors import Refused
from lifecycle.payload import models as p
from lifecycle.state.conditions import has_failed_result_check
from lifecycle.state.status import Status
from lifecycle.state.workflow import Attempt as Recorded
from lifecycle.state.workflow import Stage, Workflow
from reconciler.attempt import execution_host as machine
from reconciler.attempt.paths import ATTEMPT, AttemptPaths, JobRecordSuffix
from reconciler.context import JobContext
from reconciler.control.judge_attempts import AttemptFinding
from reconciler.errors import MachineUnreachable
from reconciler.evidence.evidence import Evidence
from reconciler.far import query_machine
from reconciler.far.manual_jobs import observe_manual_jobs
from reconciler.host import processes
from reconciler.host.file_locks import is_lock_held
from reconciler.host.processes import FolderProcess, Host, Process
from reconciler.records import traces
from reconciler.sweep.stage_tasks import get_stage_tasks
from reconciler.verdict.diagnosis import Diagnosis, diagnose
from service.root.root import has_former_place
from service.writing.stream_writer import WriteOptions
from service.writing.workflow_service import Outcome
from wording import TemplatedError

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload


Uphold = Callable[[AttemptFinding, str], tuple["Payload", int]]
"""Asks a person to uphold a claim against a finding.

Returns the record of the decision, and the version to which the record is bound.
"""


def require_version(options: WriteOptions, version: int) -> WriteOptions:
    """Return write options that require the log to be at the given version."""
    return options._replace(expected_version=version, exact=True)


def diagnose_attempt(
    state: Workflow,
    stage: Stage,
    attempt: AttemptPaths,
    evidence: Evidence | None,
    verdict: str | None,
) -> Diagnosis:
    """Return the probable cause of an attempt's failure.

    The cause is derived from the evidence, the verdict and the files of the attempt.
    """
    by_hand = any(one.taken_over for one in stage.attempts if one.id == attempt.id)
    found = diagnose(attempt, evidence, verdict, by_hand=by_hand)
    return get_stage_tasks(attempt.root, state, stage).diagnose(found)


def diagnose_newest_attempt(
    jobs: JobContext, state: Workflow, stage: Stage, recorded: Recorded
) -> Diagnosis:
    """Return the probable cause of the failure of the newest attempt.

    If a check of its results failed, the cause and the output of that check are used.
    """
    evidence = Evidence.from_dict(recorded.evidence) if recorded.evidence else None
    attempt = jobs.attempt(state, stage, recorded.id)
    found = diagnose_attempt(state, stage, attempt, evidence, recorded.verdict)
    events = jobs.service.log.events() if stage.status is Status.FAILED else ()
    failed = [one.data for one in events if one.type == p.StageFailed.type]
    for data in [one for one in failed if one["stage"] == stage.id][-1:]:
        if any(not check["passed"] for check in data["checks"]):
            said = {name: data[name] for name in ("category", "because", "output")}
            return replace(
                found, **said, has_output=True, failed_check=has_failed_result_check(stage)
            )
    return replace(found, failed_check=has_failed_result_check(stage))


#: Seconds to wait until killed processes have ended.
_KILL_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class StopResult:
    """Names of jobs and processes that were stopped, and of those that remain.

    A name looks like ``job 12`` or ``process 4711``.
    """

    ended: tuple[str, ...] = ()
    left: tuple[str, ...] = ()

    def and_also(self, other: StopResult) -> StopResult:
        """Return the names in both results together, without duplicates."""
        ended = dict.fromkeys((*self.ended, *other.ended))
        return StopResult(tuple(ended), tuple(dict.fromkeys((*self.left, *other.left))))


def stop_attempt(attempt: AttemptPaths) -> StopResult:
    """Stop all processes and queued jobs of an attempt on the machines where they run.

    First a file is created that prevents jobs of the attempt from starting their command. A job is
    found by its working folder. A process is found by its working folder, inherited locks and
    environment. No process group is signalled, because a group may contain a person's shell.
    Returns the stopped and the remaining jobs and processes. Jobs of a scheduler that does not
    answer remain. An attempt that was never submitted has nothing to stop. Raises
    MachineUnreachable if it is unknown whether anything remains.
    """
    where = machine.load_execution_host(attempt)
    if attempt.folder.is_dir():
        attempt.barrier.touch()
    if where.is_far or where.has_scheduler:
        told = query_machine.stop_attempt_jobs(attempt) if traces.may_be_submitted(attempt) else []
        ended, left = ([what for word, what in told if word == w] for w in ("ended", "left"))
        there = StopResult(tuple(ended), tuple(left))
    else:
        # A child process may work in another folder, so the processes are also found by this
        # variable, which they inherit.
        variable = f"{ATTEMPT}={attempt.tag}"
        there = kill_processes_in_folder(Path(where.scratch)).and_also(
            _kill_until_none_left(lambda: processes.find_processes_with(variable))
        )
    if where.is_far or there.left:
        return there
    locks = traces.list_job_record_files(attempt, JobRecordSuffix.LOCK)
    return there.and_also(_kill_until_none_left(lambda: processes.find_lock_holders(locks)))


def kill_processes_in_folder(folder: Path) -> StopResult:
    """Kill every process whose working folder is ``folder`` or below it.

    ``folder`` is the scratch folder of an attempt. Only processes of the attempt work there, so no
    other process is killed.
    """
    return _kill_until_none_left(
        lambda: processes.find_processes_below(processes.list_user_processes(), folder)
    )


def _kill_until_none_left(find: Callable[[], Sequence[Process | FolderProcess]]) -> StopResult:
    """Kill the processes that ``find`` returns, and repeat until it returns none.

    The search is repeated because a process may start another one before it is killed. Stops after
    `_KILL_TIMEOUT` seconds and returns the killed and the remaining processes.
    """
    deadline, ended = time.monotonic() + _KILL_TIMEOUT, dict[str, None]()
    while (left := find()) and time.monotonic() < deadline:
        for one in left:
            ended[f"process {one.pid}"] = None
            # The system may give the id of an ended process to a new process, so the start time is
            # compared too.
            if processes.start_ticks(one.pid) == one.ticks:
                with suppress(ProcessLookupError):
                    os.kill(one.pid, signal.SIGKILL)
        time.sleep(0.05)
    return StopResult(tuple(ended), tuple(f"process {one.pid}" for one in left))


class NotStopped(TemplatedError, Refused):
    """The log states that an attempt has ended, but its processes may still be running."""

    code = "not_stopped"
    text = (
        "the log says that the attempt {attempt} of the stage {stage} has ended, but the attempt "
        "may still be running: {why}. wfctl starts no new job of this stage before the attempt has "
        "stopped. Stop the attempt on its machine, then run `wfctl reconcile`."
    )
    untold = ("why",)
    stage: str
    attempt: str
    why: str


def fail_and_stop(
    jobs: JobContext,
    id_: str,
    error: str,
    options: WriteOptions,
    category: p.Category | None = None,
) -> Outcome:
    """Record that the stage failed, and stop its attempt on the machine where it runs.

    The failure is recorded first. If wfctl crashes before the attempt is stopped, the log still
    shows that the attempt must be stopped. Raises `NotStopped` if the attempt keeps running.
    """
    attempt = jobs.service.state().stage(id_).open_attempt
    named = attempt.id if attempt else None
    failure = p.StageFailed(stage=id_, error=error, attempt=named, stop=True)
    command = failure.model_copy(update={"category": category})
    content = {"fail": id_, "error": error, "stop": True, "category": category}
    options = options._replace(content=content)
    if options.dry_run:
        return jobs.service.handle(command, options=options)
    with jobs.lock_stage(id_):
        outcome = jobs.service.handle(command, options=options)
        stopped = _stop_newest_attempt(jobs, outcome.state.stage(id_))
    if stopped is None:
        return outcome
    events = (*outcome.events, *stopped.events)
    return outcome._replace(events=events, state=stopped.state, stands=stopped.stands)


def stop_marked_attempts(jobs: JobContext, *, tells: bool = False) -> None:
    """Stop every attempt that the log marks to be stopped.

    Raises `NotStopped` if an attempt keeps running. With ``tells``, prints a warning instead and
    continues with the other stages.
    """
    for stage in jobs.service.state().stages.values():
        if stage.attempt is not None and stage.attempt.is_to_stop:
            with (
                _report_not_stopped(jobs, stage) if tells else nullcontext(),
                jobs.lock_stage(stage.id),
            ):
                _stop_newest_attempt(jobs, stage)


@contextmanager
def _report_not_stopped(jobs: JobContext, stage: Stage) -> Iterator[None]:
    try:
        yield
    except NotStopped as error:
        jobs.say(error.message, level="warning", stage=stage.id)


def stop_attempt_before_rerun(jobs: JobContext, stage: Stage) -> None:
    """Stop the newest attempt of a stage and its processes before the stage runs again.

    Raises `NotStopped` if processes may still run and the end of the attempt was not observed.
    """
    newest = stage.attempt
    if newest is None:
        return
    # If the end of the job was observed, a failure to stop leftover processes is only a warning. A
    # scheduler ends all processes of a job itself, so its jobs need no stop.
    attempt = jobs.attempt(jobs.service.state(), stage, newest.id)
    unseen = newest.is_to_stop or newest.can_have_running_jobs or newest.taken_over
    if unseen or not machine.load_execution_host(attempt).has_scheduler:
        with nullcontext() if unseen else _report_not_stopped(jobs, stage):
            _stop_newest_attempt(jobs, stage)


def _stop_newest_attempt(jobs: JobContext, stage: Stage) -> Outcome | None:
    """Stop the newest attempt of a stage, and record the stop in the log.

    Returns None, and records nothing, if the attempt was already stopped, or if no stop was
    requested and no process was running.
    """
    newest = stage.attempt
    if newest is None or newest.is_open or newest.stopped_at is not None:
        return None
    attempt = jobs.attempt(jobs.service.state(), stage, newest.id)
    if newest.taken_over and newest.root == str(attempt.root):
        _check_manual_jobs_ended(jobs.root, stage, newest)
    # Whether the user has stated that this folder or host is the one on which the attempt was
    # started.
    said = has_former_place(jobs.service.root, newest.root, newest.host)
    # In a copy of the root, the attempt's files refer to processes of the original root, which must
    # not be stopped.
    if not attempt.folder.exists() or not (said or newest.root == str(attempt.root)):
        return None
    ended = _stop_monitor_and_jobs(stage, newest, attempt, is_said_to_be_here=said).ended
    if not (ended or newest.is_to_stop):
        return None
    superseded = newest.outcome == "superseded"
    asked = "because of an approved amendment" if superseded else "as requested"
    reason = asked if newest.is_to_stop else "the stage is computed again"
    from reconciler.files.leftovers import collect_leftovers

    # Do not download leftover files if the stage runs again, because the new attempt would move
    # them aside.
    bring = newest.is_to_stop and not superseded
    left = collect_leftovers(jobs.service.state(), stage, attempt, bring=bring)
    stopped = p.AttemptStopped(stage=stage.id, attempt=newest.id, ended=list(ended), reason=reason)
    return jobs.record(*left, stopped)


def _check_manual_jobs_ended(root: Path, stage: Stage, recorded: Recorded) -> None:
    """Raise `NotStopped` if a job that a person launched by hand is still running."""
    files = (root / recorded.submission, root / recorded.wrapper)
    manual = observe_manual_jobs(root, *files, recorded.submission_sha256)
    found = manual.observed
    at_work = [f"process {one.pid}" for one in found.tenants or ()]
    at_work += [
        f"job {one.id}" for one in (found.queue and found.queue.listed) or () if one.is_alive
    ]
    if at_work:
        why = f"the job was launched by hand, and {', '.join(at_work)} is still running"
        raise NotStopped(stage.id, recorded.id, why)


def _stop_monitor_and_jobs(
    stage: Stage, recorded: Recorded, attempt: AttemptPaths, *, is_said_to_be_here: bool
) -> StopResult:
    """Stop the monitor and the jobs of an attempt, and return the stopped processes.

    Raises `NotStopped` if anything keeps running, or if the attempt was started on another host.
    """
    where = machine.load_execution_host(attempt)
    launch = traces.select_text_values(traces.read_json(attempt.launch_record))
    began_on = Host(recorded.host, recorded.boot_id, launch.get("machine_id"))
    if not (began_on.is_here(attempt.root) or is_said_to_be_here):
        raise NotStopped(
            stage.id,
            recorded.id,
            f"the attempt was started on the host {recorded.host}, but this host is named "
            f"{processes.host()}. If both names belong to the same machine, or if {recorded.host} "
            "no longer exists, run `wfctl --root-is moved note TEXT` once",
        )
    away = where.is_far or where.has_scheduler
    if recorded.boot_id not in (None, processes.boot_id()) and not away:
        return StopResult()
    # The monitor is killed first. If it kept running, it would submit the killed jobs again.
    monitor = _kill_until_none_left(lambda: processes.find_lock_holders([attempt.monitor_lock]))
    try:
        found = monitor.and_also(stop_attempt(attempt))
    except MachineUnreachable as error:
        raise NotStopped(stage.id, recorded.id, error.message) from error
    if found.left:
        raise NotStopped(stage.id, recorded.id, f"{', '.join(found.left)} does not stop")
    locks = [attempt.monitor_lock, *traces.list_job_record_files(attempt, JobRecordSuffix.LOCK)]
    held = [lock.name for lock in locks if is_lock_held(lock) is not False]
    if held:
        raise NotStopped(
            stage.id,
            recorded.id,
            f"the lock file {', '.join(held)} is held by another process or cannot be read",
        )
    return found
