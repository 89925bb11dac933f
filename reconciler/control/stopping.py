"""Ending the jobs and processes of attempts."""

from __future__ import annotations

import operator
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lifecycle.errors import NeedsConsent, Refused
from lifecycle.payload import models as p
from lifecycle.rules.decide import payload_of
from lifecycle.state.status import Status
from lifecycle.state.workflow import Attempt as Recorded
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import is_sweep
from lifecycle.words.mandates import counted
from reconciler.attempt import execution_host as machine
from reconciler.attempt.paths import ATTEMPT, PREPARED, AttemptPaths, OfJob, of_recorded
from reconciler.context import Jobs
from reconciler.control.recomputation import find_recomputation, warn_of_recomputation
from reconciler.control.strangers import AttemptFinding, look, newest_attempt
from reconciler.errors import MachineUnreachable
from reconciler.evidence.evidence import Evidence
from reconciler.far import ask
from reconciler.far.manual_jobs import observe_manual_jobs
from reconciler.host import processes
from reconciler.host.processes import Host, Process, Tenant
from reconciler.host.program import is_held
from reconciler.records import traces
from reconciler.submission import build as submission
from reconciler.verdict.diagnosis import Diagnosis, diagnose
from reconciler.verdict.table import Action
from service.errors import InvalidOption
from service.root.root import was_here
from service.writing.stream_writer import WriteOptions
from service.writing.workflow_service import Outcome
from wording import Worded

if TYPE_CHECKING:
    from lifecycle.payload.models import Payload


def retry(
    jobs: Jobs,
    id_: str,
    fix: str,
    options: WriteOptions,
    *,
    regenerate: bool = False,
    decide: Callable[[Payload, str], Outcome] | None = None,
) -> Outcome:
    """Let a failed stage run again after a fix, which ``fix`` says in words.

    ``regenerate``: its submission is built anew. ``decide`` asks a person whether the finished
    tasks of a sweep are kept although their inputs changed, and records the retry. Raises
    `NeedsConsent` if the prepared submission.json was changed in what the stage's parameters say:
    the command, or the resources.
    """
    values: dict[str, Any] = {"stage": id_, "fix": fix, "regenerate": regenerate}
    values |= {"failed_only": True} if decide is not None else {}
    command = payload_of(p.StageRetried.type, values)
    if decide is not None:
        options = replace(options, content={command.type: command.model_dump(mode="json")})
    first = jobs.service.first_answer(options, command)
    if first is not None:
        return first
    touched = [] if regenerate else list(_touched(jobs, jobs.service.state().stage(id_)))
    if touched:
        refusal = NeedsConsent(
            f"{id_}: its submission.json changes {' and '.join(touched)}, and a fix that changes "
            "parameters is an amendment. Propose it (`wfctl amend propose`); once it is approved, "
            "the submission is built anew. A fix of an input script needs none.",
            stage=id_,
            fields=touched,
        )
        if not options.dry_run:
            jobs.service.writer.record_refusal([command], refusal)
        raise refusal
    if decide is not None:
        question = _describe_kept_tasks(jobs, jobs.service.state().stage(id_))
        jobs.say(question, stage=id_)
        # The rules refuse before a person is asked.
        agreed = command.model_copy(update={"proof": {"policy": "none: a rehearsal"}})
        jobs.service.handle(agreed, options=replace(options, dry_run=True))
        return decide(command, question)
    outcome = jobs.service.handle(command, options=options)
    state = jobs.service.state()
    warn_of_recomputation(jobs, state, state.stage(id_))
    return outcome


def _describe_kept_tasks(jobs: Jobs, stage: Stage) -> str:
    """Return the question to a person who may keep the finished tasks of a failed sweep.

    Raises `InvalidOption` if the stage is no sweep.
    """
    if not is_sweep(stage.parameters):
        raise InvalidOption(
            f"--failed-only keeps finished tasks of a sweep; {stage.id} has no parameters.map",
            stage=stage.id,
        )
    found = find_recomputation(jobs.root, jobs.service.state(), stage)
    if found is None:
        return f"{stage.id}: finished tasks are kept, also if their inputs change before the start"
    rest = found.total - found.finished
    return (
        f"{stage.id}: {found.cause}: {counted(found.finished, 'finished task')} kept as before "
        f"the change, {counted(rest, 'task')} to compute ({found.price(rest)})"
    )


def _touched(jobs: Jobs, stage: Stage) -> Iterator[str]:
    """Yield the parameters that the prepared submission changes since the last attempt."""
    prepared = jobs.root / stage.id / PREPARED
    attempt = next((a for a in reversed(stage.attempts) if not a.diagnostic), None)
    # An amendment that was approved since has the submission built anew.
    if attempt is None or stage.regenerate or not prepared.is_file():
        return
    ran = traces.read_json(of_recorded(jobs.root, "", stage.id, attempt).submission)
    if ran is None:
        return
    now = submission.read(prepared)
    commands = ([task.get("command") for task in one.get("task_list", [])] for one in (ran, now))
    if stage.parameters.get("command") is not None and operator.ne(*commands):
        yield "parameters.command"
    # The environment and the guard of an attempt are wfctl's, and not asked for.
    ours = {"envs": 0, "prepend_script": 0, "group_size": 0}
    if operator.ne(*({**one.get("resources", {}), **ours} for one in (ran, now))):
        yield "parameters.resource_overrides"


#: What says that something of an attempt is at work.
_ALIVE = frozenset({Action.WAIT, Action.ATTACH})
#: What says that its computation has not come to a good end.
_NOT_COMPUTED = _ALIVE | {Action.LAUNCH, Action.FAILED, Action.LOST}


class ClaimDenied(Worded, Refused):
    """Somebody says what the evidence denies."""

    code = "claim_denied"
    text = (
        "{stage}: {attempt} is not {claim}: {reason} ({verdict}). `wfctl wait {stage}` waits for "
        "it, `wfctl reconcile` records what is so; `wfctl stage fail {stage} --stop --error "
        '"…"` ends it. A person who knows better says so with --overrule TEXT.'
    )
    untold = ("claim", "reason")
    stage: str
    attempt: str
    claim: str
    reason: str
    verdict: str
    row: int


Uphold = Callable[[AttemptFinding, str], tuple["Payload", int]]
"""Asks a person to uphold a claim against a finding; returns the record of it, and the version
that the record is bound to."""


@dataclass(frozen=True, slots=True)
class Claims:
    """How claims are held to the evidence; ``uphold`` asks a person who may overrule it."""

    jobs: Jobs
    uphold: Uphold | None = None

    def computed(self, id_: str) -> tuple[Payload, int] | None:
        """Raise `ClaimDenied` if the evidence denies that a computation is over and well.

        Returns the record of a person's word against the evidence, if one is needed.
        """
        state = self.jobs.service.state()
        stage = state.stage(id_)
        is_open = stage.open_attempt is not None
        return self._held(state, stage, "computed", _NOT_COMPUTED) if is_open else None

    def over(self, id_: str) -> tuple[Payload, int] | None:
        """As `computed`, for a stage that is called complete and has a job at work."""
        state = self.jobs.service.state()
        stage = state.stage(id_)
        known = stage.attempt is not None and stage.status is Status.POST_PROCESSING
        return self._held(state, stage, "over", _ALIVE) if known else None

    def believe(self, id_: str) -> None:
        """Record tasks as done whose results only a person can judge, and print how many."""
        state = self.jobs.service.state()
        stage = state.stage(id_)
        if not is_sweep(stage.parameters) or stage.open_attempt is None:
            return
        # only if a stage has tasks
        from reconciler.sweep.judging import close, tasks_without_verdict

        with self.jobs.sole(id_):
            if not look(self.jobs, state, stage).verdict.is_untold:
                return
            found = tasks_without_verdict(self.jobs.root, state, stage)
            newest = newest_attempt(self.jobs, state, stage)
            earlier = {one.id: one for one, _ in found.values() if one.id != newest.id}
            for attempt in (*earlier.values(), newest):
                observed = close(state, state.stage(id_), attempt, believed=True)
                state = self.jobs.record(observed).state
            tasks = "1 task" if len(found) == 1 else f"{len(found):,} tasks"
            self.jobs.say(f"{id_}: {tasks} without a verdict recorded as done", stage=id_)

    def _held(
        self, state: Workflow, stage: Stage, claim: str, denying: frozenset[Action]
    ) -> tuple[Payload, int] | None:
        # An attempt that was only recorded has left nothing that could deny anything.
        if not newest_attempt(self.jobs, state, stage).launch_record.exists():
            return None
        finding = look(self.jobs, state, stage)
        found = finding.verdict
        if found.action not in denying:
            return None
        if self.uphold is None:
            raise ClaimDenied(stage.id, finding.attempt, claim, found.reason, found.name, found.row)
        return self.uphold(finding, claim)


def bound(options: WriteOptions, version: int) -> WriteOptions:
    """Return the options of a write that comes right behind the version."""
    return replace(options, expected_version=version, exact=True)


def diagnosis(
    state: Workflow,
    stage: Stage,
    attempt: AttemptPaths,
    evidence: Evidence | None,
    verdict: str | None,
) -> Diagnosis:
    """Return the diagnosis of an attempt by its evidence and the verdict on it."""
    by_hand = any(one.taken_over for one in stage.attempts if one.id == attempt.id)
    found = diagnose(attempt, evidence, verdict, by_hand=by_hand)
    if not is_sweep(stage.parameters):
        return found
    from reconciler.sweep.judging import diagnosis_of  # only if a stage has tasks

    return diagnosis_of(found, attempt.root, state, stage)


def of_newest(jobs: Jobs, state: Workflow, stage: Stage, recorded: Recorded) -> Diagnosis:
    """Return the diagnosis of the newest attempt by what is recorded of it, and by its files."""
    evidence = Evidence.from_dict(recorded.evidence) if recorded.evidence else None
    attempt = jobs.attempt(state, stage, recorded.id)
    found = diagnosis(state, stage, attempt, evidence, recorded.verdict)
    events = jobs.service.log.events() if stage.status is Status.FAILED else ()
    failed = [one.data for one in events if one.type == p.StageFailed.type]
    for data in [one for one in failed if one["stage"] == stage.id][-1:]:
        if any(not check["passed"] for check in data["checks"]):
            said = {name: data[name] for name in ("category", "because", "output")}
            return replace(found, **said, has_output=True)
    return found


#: Seconds that killed processes have to be gone.
_WITHIN = 10.0


@dataclass(frozen=True, slots=True)
class Stopped:
    """What was ended, and what is left, each in words such as ``job 12`` or ``process 4711``."""

    ended: tuple[str, ...] = ()
    left: tuple[str, ...] = ()

    def and_also(self, other: Stopped) -> Stopped:
        """Return both together, each said once."""
        ended = dict.fromkeys((*self.ended, *other.ended))
        return Stopped(tuple(ended), tuple(dict.fromkeys((*self.left, *other.left))))


def stop(attempt: AttemptPaths) -> Stopped:
    """End every process and queued job of an attempt where they are.

    From the first moment on no job of it starts its command any more. No process group is ever
    hit, which may hold a person's shell: a job is found by the folder that it works in, and a
    process by that, by the locks that it inherited and by the attempt in its environment. Whatever
    a silent scheduler may hold is left. What was never submitted has nothing to end. Raises
    MachineUnreachable if nobody can say whether anything is left.
    """
    where = machine.of(attempt)
    if attempt.folder.is_dir():
        attempt.barrier.touch()
    if where.is_far or where.has_scheduler:
        told = ask.stop(attempt) if traces.may_be_submitted(attempt) else []
        ended, left = ([what for word, what in told if word == w] for w in ("ended", "left"))
        there = Stopped(tuple(ended), tuple(left))
    else:
        # What a command started may work in another folder, with every file of it closed.
        variable = f"{ATTEMPT}={attempt.tag}"
        there = stop_below(Path(where.scratch)).and_also(
            _ended(lambda: processes.began_with(variable))
        )
    if where.is_far or there.left:
        return there
    locks = traces.told(attempt, OfJob.LOCK)
    return there.and_also(_ended(lambda: processes.holders(locks)))


def stop_below(folder: Path) -> Stopped:
    """Kill every process that works in ``folder`` or below it.

    Only processes of an attempt work below its scratch folder, so nobody else is hit.
    """
    return _ended(lambda: processes.below(processes.census(), folder))


def _ended(find: Callable[[], Sequence[Process | Tenant]]) -> Stopped:
    """Kill what is found, until nothing is: a process may start another while it is killed."""
    deadline, ended = time.monotonic() + _WITHIN, dict[str, None]()
    while (left := find()) and time.monotonic() < deadline:
        for one in left:
            ended[f"process {one.pid}"] = None
            # A process is told by its id and its start time.
            if processes.start_ticks(one.pid) == one.ticks:
                with suppress(ProcessLookupError):
                    os.kill(one.pid, signal.SIGKILL)
        time.sleep(0.05)
    return Stopped(tuple(ended), tuple(f"process {one.pid}" for one in left))


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

    The failure is recorded first: anyone who dies in between leaves an attempt that is known to be
    stopped. Raises `NotStopped` if it goes on.
    """
    attempt = jobs.service.state().stage(id_).open_attempt
    named = attempt.id if attempt else None
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


def stop_all(jobs: Jobs, *, tells: bool = False) -> None:
    """End every attempt that is to be stopped; raises `NotStopped` for one that goes on.

    ``tells``: it is told instead, and holds up nobody but its own stage.
    """
    for stage in jobs.service.state().stages.values():
        if stage.attempt is not None and stage.attempt.is_to_stop:
            with _told(jobs, stage) if tells else nullcontext(), jobs.sole(stage.id):
                _end(jobs, stage)


@contextmanager
def _told(jobs: Jobs, stage: Stage) -> Iterator[None]:
    try:
        yield
    except NotStopped as error:
        jobs.say(error.message, level="warning", stage=stage.id)


def stop_earlier(jobs: Jobs, stage: Stage) -> None:
    """End the newest attempt of a stage that is to run again, and whatever its command left.

    Raises `NotStopped` if nobody saw its end.
    """
    newest = stage.attempt
    if newest is None:
        return
    # If its end was seen, what it may have left elsewhere is no reason to start nothing. A
    # scheduler ends all that is left of a job together with it.
    attempt = jobs.attempt(jobs.service.state(), stage, newest.id)
    unseen = newest.is_to_stop or newest.may_run_on or newest.taken_over
    if unseen or not machine.of(attempt).has_scheduler:
        with nullcontext() if unseen else _told(jobs, stage):
            _end(jobs, stage)


def _end(jobs: Jobs, stage: Stage) -> Outcome | None:
    """End the newest attempt; record it where that was asked for, or something was at work."""
    newest = stage.attempt
    if newest is None or newest.is_open or newest.stopped_at is not None:
        return None
    attempt = jobs.attempt(jobs.service.state(), stage, newest.id)
    if newest.taken_over and newest.root == str(attempt.root):
        _check_manual_jobs_ended(jobs.root, stage, newest)
    # An attempt's folder moves with its stage's only once the attempt is seen to be over.
    said = was_here(jobs.service.root, newest.root, newest.host)
    # In a copy of the root what its files name is the original's, and is left alone.
    if not attempt.folder.exists() or not (said or newest.root == str(attempt.root)):
        return None
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


def _check_manual_jobs_ended(root: Path, stage: Stage, recorded: Recorded) -> None:
    """Raise `NotStopped` while a job that was launched by hand is at work."""
    files = (root / recorded.submission, root / recorded.wrapper)
    manual = observe_manual_jobs(root, *files, recorded.submission_sha256)
    found = manual.observed
    at_work = [f"process {one.pid}" for one in found.tenants or ()]
    at_work += [
        f"job {one.id}" for one in (found.queue and found.queue.listed) or () if one.is_alive
    ]
    if at_work:
        why = f"it was launched by hand, and {', '.join(at_work)} is at work"
        raise NotStopped(stage.id, recorded.id, why)


def _stopped(
    stage: Stage, recorded: Recorded, attempt: AttemptPaths, *, is_said_to_be_here: bool
) -> Stopped:
    """End the attempt's monitor and jobs; raises `NotStopped` if anything goes on."""
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
    monitor = _ended(lambda: processes.holders([attempt.monitor_lock]))
    try:
        found = monitor.and_also(stop(attempt))
    except MachineUnreachable as error:
        raise NotStopped(stage.id, recorded.id, error.message) from error
    if found.left:
        raise NotStopped(stage.id, recorded.id, f"{', '.join(found.left)} does not end")
    locks = [attempt.monitor_lock, *traces.told(attempt, OfJob.LOCK)]
    held = [lock.name for lock in locks if is_held(lock) is not False]
    if held:
        raise NotStopped(stage.id, recorded.id, f"{', '.join(held)} is held or unreadable")
    return found
