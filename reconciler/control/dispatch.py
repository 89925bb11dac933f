"""Launching an attempt: what is submitted is fixed and recorded before any process starts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

from lifecycle.errors import NeedsConsent, Refused
from lifecycle.payload import models as p
from lifecycle.state.dependencies import needed_by
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import DONE, is_sweep, table_of
from reconciler.attempt import execution_host
from reconciler.attempt import execution_host as job_environment
from reconciler.attempt.contract import ATTEMPTS, PREPARED
from reconciler.attempt.markers import Input, check_inputs, clear_stale, digests, set_aside
from reconciler.attempt.paths import AttemptPaths
from reconciler.context import Jobs
from reconciler.control import strangers
from reconciler.control.stopping import stop_all, stop_earlier
from reconciler.control.strangers import check_strangers
from reconciler.errors import AlreadyMonitored, UnusablePath
from reconciler.files import by_hand, carry
from reconciler.files.clearing import keep
from reconciler.files.described import submission_of, used_by
from reconciler.files.freshness import check_results
from reconciler.files.pinned import check_pinned
from reconciler.host import processes, tmux
from reconciler.port import Mode, SubmissionFacts
from reconciler.records.traces import forward
from reconciler.submission.agreed import check_recorded
from reconciler.submission.build import diagnostic_of, kept_diagnostic
from reconciler.submission.fields import placed
from service.consent.scripts import beside
from service.root.safe_open import OutsideRoot, below
from service.writing.stream_writer import WriteOptions
from service.writing.undecided import check_edits
from service.writing.workflow_service import Outcome
from wording import Worded

#: Seconds that a launch may take to say what its submission is called.
_FACTS_WITHIN = 20.0


class NoDiagnosticRun(Worded, Refused):
    """A diagnostic run of a stage whose tasks tell each for itself why they failed."""

    code = "no_diagnostic_run"
    text = (
        "{stage} has a map: what its tasks printed is kept, so no run is needed to see it. "
        "`wfctl tasks {stage} --failed` lists those that failed, `wfctl logs {stage} --task "
        "KEY` shows one."
    )
    stage: str


def dispatch(
    jobs: Jobs, id_: str, *, sync: bool, options: WriteOptions, diagnostic: bool = False
) -> Outcome:
    """Launch an attempt of the stage; ``sync`` says that the caller waits for its end.

    A ``diagnostic`` one of a failed stage counts as a retry, brings back log and err alone, and
    ends in failed.

    Raises what the rules and the runner raise; before `attempt.started` is recorded nothing
    runs, and after it nothing is lost.
    """
    state = jobs.service.state()
    stage = state.stage(id_)
    _check_outputs(jobs, stage)
    if diagnostic and is_sweep(stage.parameters):
        raise NoDiagnosticRun(id_)
    mode = _mode(jobs, sync)
    content = {"dispatch": id_, "sync": sync} | ({"diagnostic": True} if diagnostic else {})
    options = replace(options, content=content)
    if options.dry_run:
        asked = _asked(jobs, state, stage, mode, diagnostic)
        outcome = jobs.service.handle(asked, options=options)
        check_results(jobs.root, state, stage)
        _check(jobs, state, stage, diagnostic)
        return outcome
    check_edits(jobs.service, id_)
    stop_all(jobs)
    with jobs.sole(id_):
        return _dispatch(jobs, id_, mode, options, diagnostic)


def _check_outputs(jobs: Jobs, stage: Stage) -> None:
    """Raise UnusablePath for outputs outside of the root: what lies there is moved for a rerun.

    The rules let none in, but a log may be anybody's.
    """
    for path in stage.outputs:
        try:
            below(jobs.root, str(PurePosixPath(path)))
        except OutsideRoot as error:
            raise UnusablePath(stage.id, "outputs", path, "a path below the root") from error


def _dispatch(jobs: Jobs, id_: str, mode: Mode, options: WriteOptions, diagnostic: bool) -> Outcome:
    first = jobs.service.first_answer(options)
    if first is not None:
        return first
    state = jobs.service.state()
    stage = state.stage(id_)
    if launched := by_hand.found(jobs.root, state, _idle(stage)):
        return _taken_over(jobs, state, stage, launched[0], options)
    if lost := strangers.lost(jobs, state, stage):
        return _taken_up(jobs, stage, lost, options)
    jobs.service.rehearse(_asked(jobs, state, stage, mode, diagnostic))
    check_results(jobs.root, state, stage)
    stop_earlier(jobs, stage)
    check_strangers(jobs, state, stage)
    state = _closed(jobs, state, id_)
    stage = state.stage(id_)
    previous = stage.attempt.name if stage.attempt else None
    kept = make_room(jobs, state, stage, previous)
    attempt = jobs.attempt(state, stage, _next_id(stage), diagnostic=diagnostic)
    command = _prepared(jobs, state, stage, attempt, mode, diagnostic)
    outcome = jobs.service.handle(command, options=options)
    jobs.tell(outcome)
    if kept:
        jobs.record(p.NoteLogged(stage=id_, text=f"outputs kept as {stage.keep_as}"))
    clear_stale(jobs.root, stage.id, in_the_way(stage, attempt), previous)
    recorded = replace(attempt, sha256=command.submission_sha256)
    check_recorded(recorded)
    launch(jobs, recorded, mode)
    return outcome


def _closed(jobs: Jobs, state: Workflow, id_: str) -> Workflow:
    """Record what became of the tasks of attempts that somebody ended; return the state then."""
    if not is_sweep(state.stage(id_).parameters):
        return state
    from reconciler.sweep import judging  # only where a stage has tasks

    for attempt in judging.unclosed(jobs.root, state, state.stage(id_)):
        closed = judging.close(jobs.root, state, state.stage(id_), attempt, stopped=True)
        jobs.record(closed)
        state = jobs.service.state()
    return state


def _idle(stage: Stage) -> list[Stage]:
    return [stage] if stage.open_attempt is None else []


def _taken_over(
    jobs: Jobs, state: Workflow, stage: Stage, job: by_hand.ManualLaunch, options: WriteOptions
) -> Outcome:
    """Record that the job runs, or ran, already: nothing is computed beside it."""
    asked = by_hand.commands(jobs.root, state, stage, job, jobs.service.clock())
    options = replace(options, occurred_each=tuple(at for _, at in asked))
    outcome = jobs.service.handle(*(command for command, _ in asked), options=options)
    jobs.tell(outcome)
    by_hand.tell(jobs, outcome.state, job)
    return outcome


def _taken_up(jobs: Jobs, stage: Stage, lost: strangers.Lost, options: WriteOptions) -> Outcome:
    """Record the attempt that the log lost once more: it is at work."""
    started, at = lost
    outcome = jobs.service.handle(started, options=replace(options, occurred_each=(at,)))
    jobs.tell(outcome)
    strangers.tell(jobs, stage.id, started)
    return outcome


def _prepared(
    jobs: Jobs, state: Workflow, stage: Stage, attempt: AttemptPaths, mode: Mode, diagnostic: bool
) -> p.AttemptStarted:
    try:
        return prepare(jobs, state, stage, attempt, mode, diagnostic=diagnostic)
    except NeedsConsent as refusal:
        asked = _asked(jobs, state, stage, mode, diagnostic)
        jobs.service.record_refusal([asked], refusal)
        raise


def make_room(jobs: Jobs, state: Workflow, stage: Stage, previous: str | None) -> bool:
    """Keep what an amendment made stale, before anything new is written in its place.

    Returns whether there is a kept folder now that the log has not told of.
    """
    left = [*stage.outputs, *_left_behind(stage)]
    if stage.keeps_tasks:
        from reconciler.sweep import points

        kept = points.keep(jobs.root, state, stage)
    else:
        left += [f"{stage.id}/{DONE}"] if is_sweep(stage.parameters) else []
        kept = stage.keep_as is not None and keep(jobs.root, stage.id, stage.keep_as, left)
    prepared = f"{stage.id}/{PREPARED}"
    if _is_built_anew(stage) and set_aside(jobs.root, stage.id, prepared, previous):
        jobs.say(f"{prepared} was made for earlier parameters; it is built anew", stage=stage.id)
    return kept


def in_the_way(stage: Stage, attempt: AttemptPaths) -> list[str]:
    """Return what earlier attempts wrote where a new one writes, but for what that one reads."""
    read = set(forward(attempt))
    tables = table_of(stage.id) if is_sweep(stage.parameters) else ()
    left = [path for path in stage.left_in_place if path not in read]
    return list(dict.fromkeys([*stage.outputs, *tables, *left]))


def _left_behind(stage: Stage) -> list[str]:
    """Return what the stage's attempts left that it does not read itself."""
    names = stage.parameters.get("forward_files") or []
    read = [*stage.inputs, *(f"{stage.id}/{name}" for name in names)]
    return [p for p in stage.left_in_place if not any(fnmatchcase(p, name) for name in read)]


def _is_built_anew(stage: Stage) -> bool:
    """Whether what was prepared was made for earlier parameters."""
    return bool(stage.regenerate and stage.parameters.get("command"))


def _mode(jobs: Jobs, sync: bool) -> Mode:
    if sync:
        return Mode.SYNC
    if tmux.is_installed(os.environ):
        return Mode.TMUX
    jobs.say(tmux.MISSING)
    return Mode.SETSID


def _next_id(stage: Stage) -> str:
    return f"att-{len(stage.attempts) + 1:04d}"


def _asked(
    jobs: Jobs, state: Workflow, stage: Stage, mode: Mode, diagnostic: bool
) -> p.AttemptStarted:
    """Return the command as far as it is known before anything is prepared."""
    attempt = jobs.attempt(state, stage, _next_id(stage), diagnostic=diagnostic)
    return _command(attempt, mode, "0" * 64, diagnostic=diagnostic)


def _command(attempt: AttemptPaths, mode: Mode, sha256: str, **known: Any) -> p.AttemptStarted:
    return p.AttemptStarted(
        stage=attempt.stage,
        mode=mode.value,
        root=str(attempt.root),
        work_dir=str(attempt.work.relative_to(attempt.root)),
        submission=str(attempt.submission.relative_to(attempt.root)),
        submission_sha256=sha256,
        wrapper=str(attempt.wrapper.relative_to(attempt.root)),
        session=attempt.session if mode is Mode.TMUX else None,
        host=processes.host(),
        boot_id=processes.boot_id(),
        **known,
    )


def prepare(
    jobs: Jobs,
    state: Workflow,
    stage: Stage,
    attempt: AttemptPaths,
    mode: Mode,
    recovers: str | None = None,
    diagnostic: bool = False,
) -> p.AttemptStarted:
    """Write and check what the attempt submits; return the command that records it.

    What it computes from is recorded as it is now: the inputs and what its dependencies have left,
    which must not be empty, and all else that its submission sends.
    """
    check_pinned(jobs, state, stage.id)
    needed = needed_by(state, stage)
    inputs = check_inputs(jobs.root, needed)
    given = submission_of(jobs.root, state, stage)
    carried = None if diagnostic else carry.to_carry(jobs, stage)
    if diagnostic:
        given = kept_diagnostic(attempt, given)
    given = placed(given, stage.inputs)
    if is_sweep(stage.parameters):
        sha256 = _sharing_out(jobs, state, stage, attempt, given, inputs, recovers)
    else:
        sha256 = _carrying(jobs, attempt, given, carried)
    own = f"{stage.id}/{ATTEMPTS}/"
    paths = [path for path in forward(attempt) if path not in needed and not path.startswith(own)]
    sent = digests(jobs.root, paths)
    known = {**used_by(jobs.root, state, stage, inputs, sent), "recovers": recovers}
    known |= {"diagnostic": diagnostic, "beside": beside(jobs.root, state, stage)}
    if not execution_host.of(attempt).is_far:
        known["environment"] = job_environment.environment_told(attempt)
    if carried is not None:
        known |= {"carried": list(carried.files), "carried_from": carried.source}
    return _command(attempt, mode, sha256, **known)


def _sharing_out(
    jobs: Jobs,
    state: Workflow,
    stage: Stage,
    attempt: AttemptPaths,
    given: dict[str, Any],
    inputs: Sequence[Input],
    recovers: str | None,
) -> str:
    """Write what the attempt of a sweep submits, with its tasks; return its digest."""
    from reconciler.sweep.assignment import assigned, drop

    try:
        sent = assigned(jobs.root, state, stage, attempt, given, inputs, recovers)
        return jobs.runner.prepare(attempt, sent)
    except BaseException:
        drop(attempt)
        raise


def _carrying(
    jobs: Jobs, attempt: AttemptPaths, given: dict[str, Any], carried: carry.Carried | None
) -> str:
    """Write what the attempt submits, with what it goes on from; return its digest."""
    if carried is None:
        return jobs.runner.prepare(attempt, given)
    carry.put_aside(attempt, carried)
    try:
        return jobs.runner.prepare(attempt, carry.sending(given, attempt, carried))
    except BaseException:
        carry.drop(attempt)
        raise


def _check(jobs: Jobs, state: Workflow, stage: Stage, diagnostic: bool) -> None:
    """Raise what preparing an attempt of the stage would raise, and write nothing."""
    check_pinned(jobs, state, stage.id)
    check_inputs(jobs.root, needed_by(state, stage))
    if is_sweep(stage.parameters):
        from reconciler.sweep.points import points_of

        points_of(jobs.root, state, stage, anew=True)
    given = submission_of(jobs.root, state, stage, anew=stage.regenerate)
    attempt = jobs.attempt(state, stage, _next_id(stage), diagnostic=diagnostic)
    jobs.runner.check(attempt, diagnostic_of(given) if diagnostic else given)


def launch(jobs: Jobs, attempt: AttemptPaths, mode: Mode, *, known: bool = False) -> None:
    """Start a monitor of an attempt and record that it was launched.

    ``known`` says that it was launched and recorded before: then its new jobs are recorded alone.
    """
    _record_launch(jobs, attempt, attach(jobs, attempt, mode), known)


def attach(jobs: Jobs, attempt: AttemptPaths, mode: Mode) -> Mode:
    """Start a monitor, or leave it to the one that is at work; return how it runs."""
    # The monitor of a synchronous attempt is detached too: it outlives whoever waits for it, and
    # the stage is not held for as long as the job computes.
    detached = Mode.SETSID if mode is Mode.SYNC else mode
    try:
        launched = jobs.runner.launch(attempt, detached)
    except AlreadyMonitored:
        return mode
    if launched.note:
        jobs.say(launched.note, stage=attempt.stage, attempt=attempt.id)
    return mode if launched.mode is detached else launched.mode


def _record_launch(jobs: Jobs, attempt: AttemptPaths, mode: Mode, known: bool) -> None:
    """Wait until the runner knows its submission, and record what it told."""
    facts = _facts(jobs, attempt)
    # A monitor that died before it submitted has launched nothing: the reconciler goes on.
    if facts.job_ids or not (known or jobs.runner.wait(attempt, timeout=0)):
        jobs.record(launched(attempt, mode, facts))


def launched(attempt: AttemptPaths, mode: Mode, facts: SubmissionFacts) -> p.StageLaunched:
    """Return the command that records a launch."""
    return p.StageLaunched(
        stage=attempt.stage,
        attempt=attempt.id,
        mode=mode.value,
        session=attempt.session if mode is Mode.TMUX else None,
        submission_hash=facts.submission_hash,
        job_ids=list(facts.job_ids),
        work_dir=facts.work_dir,
        host=facts.host,
        boot_id=facts.boot_id,
        job_host=facts.job_host,
        job_boot_id=facts.job_boot_id,
        dpdispatcher_version=facts.dpdispatcher_version,
    )


def _facts(jobs: Jobs, attempt: AttemptPaths) -> SubmissionFacts:
    waited = 0.0
    while waited < _FACTS_WITHIN:
        facts = jobs.runner.facts(attempt)
        if facts.job_ids or jobs.runner.wait(attempt, timeout=0.1):
            return jobs.runner.facts(attempt)
        waited += 0.1
    return jobs.runner.facts(attempt)
