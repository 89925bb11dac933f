"""Ending the jobs and processes of attempts."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lifecycle.errors import Refused
from lifecycle.payload import models as p
from lifecycle.state.workflow import Attempt as Recorded
from lifecycle.state.workflow import Stage, Workflow
from reconciler.attempt import execution_host as machine
from reconciler.attempt.contract import OfJob
from reconciler.attempt.paths import ATTEMPT, AttemptPaths
from reconciler.context import Jobs
from reconciler.errors import MachineUnreachable
from reconciler.far import ask
from reconciler.host import processes
from reconciler.host.locks import is_held
from reconciler.host.processes import Host, Process, Tenant
from reconciler.records import traces
from service.writing.report import was_here
from service.writing.stream_writer import WriteOptions
from service.writing.workflow_service import Outcome
from wording import Worded

#: Seconds that killed processes have to be gone.
_WITHIN = 10.0


@dataclass(frozen=True, slots=True)
class Stopped:
    """What was ended, and what is left, each in words such as ``job 12`` or ``process 4711``."""

    ended: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def stop(attempt: AttemptPaths) -> Stopped:
    """End every process and queued job of an attempt where they are.

    From the first moment on no job of it starts its command any more. No process group is ever
    hit, which may hold a person's shell: a job is found by the folder that it works in, and a
    process by that, by the locks that it inherited and by the attempt in its environment. Whatever
    a silent scheduler may hold is left. Raises
    MachineUnreachable where nobody can say whether anything is left.
    """
    where = machine.of(attempt)
    if attempt.folder.is_dir():
        attempt.barrier.touch()
    if where.is_far or where.has_scheduler:
        there = _stopped_there(attempt)
    else:
        there = _stopped_here(attempt, Path(where.scratch))
    if where.is_far or there.left:
        return there
    held = end_holders(traces.told(attempt, OfJob.LOCK))
    return Stopped(_each((*there.ended, *held.ended)), held.left)


def _stopped_here(attempt: AttemptPaths, scratch: Path) -> Stopped:
    ended, left = stop_below(scratch)
    inside = Stopped(_words(ended), _words(left))
    # What a command started may work in another folder, with every file of it closed.
    variable = f"{ATTEMPT}={attempt.tag}"
    outside = _ended(lambda: processes.began_with(variable), _WITHIN)
    return Stopped(_each((*inside.ended, *outside.ended)), _each((*inside.left, *outside.left)))


def _stopped_there(attempt: AttemptPaths) -> Stopped:
    told = ask.stop(attempt)
    return Stopped(
        tuple(what for word, what in told if word == "ended"),
        tuple(what for word, what in told if word == "left"),
    )


def _each(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words))


def end_holders(locks: Iterable[Path], within: float = _WITHIN) -> Stopped:
    """Kill whoever holds one of the locks, wherever they work.

    Whoever only looks whether a lock is held does not hold it.
    """
    places = list(locks)
    return _ended(lambda: processes.holders(places), within)


def _ended(find: Callable[[], Sequence[Process]], within: float) -> Stopped:
    """Kill what is found, until nothing is."""
    deadline, ended = time.monotonic() + within, dict[int, Process]()
    while (left := find()) and time.monotonic() < deadline:
        ended |= {one.pid: one for one in left}
        for one in left:
            _kill(one)
        time.sleep(0.05)
    return Stopped(_words(ended.values()), _words(left))


def stop_below(
    folder: Path, within: float = _WITHIN
) -> tuple[tuple[Tenant, ...], tuple[Tenant, ...]]:
    """Kill every process that works in ``folder`` or below it; return those, and who is left.

    Only processes of an attempt work below its scratch folder, so nobody else is hit. A process
    is told by its id and its start time. Looks again until none is left, since a process may
    start another while it is killed.
    """
    deadline, ended = time.monotonic() + within, dict[int, Tenant]()
    while (left := processes.below(processes.census(), folder)) and time.monotonic() < deadline:
        ended |= {tenant.pid: tenant for tenant in left}
        for tenant in left:
            _kill(tenant)
        time.sleep(0.05)
    return tuple(ended.values()), left


def _words(found: Iterable[Process | Tenant]) -> tuple[str, ...]:
    return tuple(f"process {one.pid}" for one in found)


def _kill(one: Process | Tenant) -> None:
    if processes.start_ticks(one.pid) != one.ticks:
        return
    try:
        os.kill(one.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


class NotStopped(Worded, Refused):
    """An attempt that is over and may still be at work."""

    code = "not_stopped"
    text = (
        "{stage}: {attempt} is over and not seen to be stopped: {why}. Nothing is dispatched "
        "until it is; end it there, and `wfctl reconcile` looks again."
    )
    untold = ("why",)
    stage: str
    attempt: str
    why: str


def fail_and_stop(
    jobs: Jobs, id_: str, error: str, options: WriteOptions, category: p.Category | None = None
) -> Outcome:
    """Record that the stage failed, and end its attempt where it runs.

    The failure is recorded first: whoever dies in between leaves an attempt that is known to be
    stopped. Raises `NotStopped` where it goes on.
    """
    attempt = jobs.service.state().stage(id_).open_attempt
    named = None if attempt is None else attempt.id
    failure = p.StageFailed(stage=id_, error=error, attempt=named, stop=True)
    command = failure.model_copy(update={"category": category})
    content = {"fail": id_, "error": error, "stop": True, "category": category}
    options = replace(options, content=content)
    if options.dry_run:
        return jobs.service.handle(command, options=options)
    with jobs.sole(id_):
        outcome = jobs.service.handle(command, options=options)
        stopped = _end(jobs, outcome.state.stage(id_))
    if stopped is None:
        return outcome
    events = (*outcome.events, *stopped.events)
    return replace(outcome, events=events, state=stopped.state, stands=stopped.stands)


def stop_all(jobs: Jobs) -> None:
    """End every attempt that is to be stopped; raises `NotStopped` for one that goes on."""
    for stage in jobs.service.state().stages.values():
        if stage.attempt is not None and stage.attempt.is_to_stop:
            with jobs.sole(stage.id):
                _end(jobs, stage)


def try_to_stop(jobs: Jobs, state: Workflow) -> None:
    """As `stop_all`, but tell of those that go on: they hold up nobody but their own stage."""
    for stage in state.stages.values():
        if stage.attempt is None or not stage.attempt.is_to_stop:
            continue
        try:
            with jobs.sole(stage.id):
                _end(jobs, stage)
        except NotStopped as error:
            jobs.say(error.message, level="warning", stage=stage.id)


def stop_earlier(jobs: Jobs, stage: Stage) -> None:
    """End the newest attempt of a stage that is to run again, and whatever its command left.

    Raises `NotStopped` where nobody saw its end.
    """
    newest = stage.attempt
    if newest is None:
        return
    if newest.is_to_stop or newest.may_run_on:
        _end(jobs, stage)
        return
    if machine.of(jobs.attempt(jobs.service.state(), stage, newest.id)).has_scheduler:
        # A scheduler ends all that is left of a job together with it.
        return
    try:
        _end(jobs, stage)
    except NotStopped as error:
        # Its end was seen: what it may have left elsewhere is no reason to start nothing.
        jobs.say(error.message, level="warning", stage=stage.id)


def _end(jobs: Jobs, stage: Stage) -> Outcome | None:
    """End the newest attempt; record it where that was asked for, or something was at work."""
    newest = stage.attempt
    if newest is None or newest.is_open or newest.stopped_at is not None:
        return None
    attempt = jobs.attempt(jobs.service.state(), stage, newest.id)
    # An attempt's folder moves with its stage's only once the attempt is seen to be over.
    if not attempt.folder.exists() or _is_of_the_original(jobs, newest, attempt):
        return None
    said = was_here(jobs.service.root, newest.root, newest.host)
    ended = _stopped(stage, newest, attempt, is_said_to_be_here=said).ended
    if not (ended or newest.is_to_stop):
        return None
    asked = "superseded" if newest.outcome == "superseded" else "asked for"
    reason = asked if newest.is_to_stop else "the stage runs again"
    from reconciler.files.leftovers import left_by

    # Where the stage runs again at once, it would be moved aside at once.
    bring = newest.is_to_stop and newest.outcome != "superseded"
    left = left_by(jobs.service.state(), stage, attempt, bring=bring)
    stopped = p.AttemptStopped(stage=stage.id, attempt=newest.id, ended=list(ended), reason=reason)
    return jobs.record(*left, stopped)


def _is_of_the_original(jobs: Jobs, recorded: Recorded, attempt: AttemptPaths) -> bool:
    """Whether this root is a copy: what its files name is the original's, and is left alone."""
    here = recorded.root == str(attempt.root)
    return not (here or was_here(jobs.service.root, recorded.root, recorded.host))


def _stopped(
    stage: Stage, recorded: Recorded, attempt: AttemptPaths, *, is_said_to_be_here: bool
) -> Stopped:
    """End the attempt's monitor and jobs; raises `NotStopped` where anything goes on."""
    where = machine.of(attempt)
    launch = traces.texts(traces.read_json(attempt.launch_record))
    began_on = Host(recorded.host, recorded.boot_id, launch.get("machine_id"))
    if not (began_on.is_here(attempt.root) or is_said_to_be_here):
        raise NotStopped(
            stage.id,
            recorded.id,
            f"it was started on {recorded.host}, and this host is called {processes.host()}. Where "
            "it is the same machine, or that one is gone, say so once: `wfctl --root-is moved note "
            "TEXT`",
        )
    away = where.is_far or where.has_scheduler
    if recorded.boot_id not in (None, processes.boot_id()) and not away:
        return Stopped()
    # The monitor first: it would submit again what is killed under its eyes.
    monitor = end_holders([attempt.monitor_lock])
    try:
        found = stop(attempt)
    except MachineUnreachable as error:
        raise NotStopped(stage.id, recorded.id, error.message) from error
    left = (*monitor.left, *found.left)
    if left:
        raise NotStopped(stage.id, recorded.id, f"{', '.join(left)} does not end")
    _check_locks(stage, recorded, attempt)
    return Stopped((*monitor.ended, *found.ended))


def _check_locks(stage: Stage, recorded: Recorded, attempt: AttemptPaths) -> None:
    locks = [attempt.monitor_lock, *traces.told(attempt, OfJob.LOCK)]
    held = [lock.name for lock in locks if is_held(lock) is not False]
    if held:
        raise NotStopped(stage.id, recorded.id, f"{', '.join(held)} is held or unreadable")
