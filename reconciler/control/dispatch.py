"""Launching an attempt: what is submitted is fixed and recorded before any process starts."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

from lifecycle.errors import NeedsConsent, Refused
from lifecycle.payload import models as p
from lifecycle.state.conditions import needed_by
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import DONE, is_sweep, table_of
from reconciler.attempt import execution_host
from reconciler.attempt.markers import check_inputs, clear_stale, digests, set_aside
from reconciler.attempt.paths import ATTEMPTS, PREPARED, AttemptPaths
from reconciler.context import Jobs, Mode, SubmissionFacts
from reconciler.control.recomputation import warn_of_recomputation
from reconciler.control.rounds import keep_round
from reconciler.control.stopping import stop_all, stop_earlier
from reconciler.control.strangers import begun, check_strangers, take_up
from reconciler.errors import AlreadyMonitored, LinkedStageFolder, UnusablePath
from reconciler.files import clearing
from reconciler.files.clearing import keep
from reconciler.files.described import check_pinned, submission_of, submitted, used_by
from reconciler.files.freshness import check_inputs_unchanged, check_results
from reconciler.host import processes
from reconciler.records.traces import forward
from reconciler.submission.agreed import check_recorded
from reconciler.submission.away import results_read
from reconciler.submission.build import (
    diagnostic_of,
    kept_diagnostic,
)
from service.consent.scripts import beside, scripts_of
from service.root.disk import OutsideRoot, below
from service.writing.amendments import check_edits
from service.writing.stream_writer import WriteOptions
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
    for path in stage.outputs:
        # What lies there is moved for a rerun. The rules let none in, but a log may be anybody's.
        try:
            below(jobs.root, str(PurePosixPath(path)))
        except OutsideRoot as error:
            folder = jobs.root / id_
            if folder.is_symlink():
                raise LinkedStageFolder(id_, str(folder.readlink())) from error
            raise UnusablePath(id_, "outputs", path, "a path below the root") from error
    if diagnostic and is_sweep(stage.parameters):
        raise NoDiagnosticRun(id_)
    mode = Mode.SYNC if sync else Mode.TMUX
    if not sync and not processes.is_installed(os.environ):
        jobs.say(processes.MISSING)
        mode = Mode.SETSID
    content = {"dispatch": id_, "sync": sync} | ({"diagnostic": True} if diagnostic else {})
    options = replace(options, content=content)
    warn_of_recomputation(jobs, state, stage)
    if options.dry_run:
        asked = _asked_for(jobs, state, stage, mode, diagnostic)
        outcome = jobs.service.handle(asked, options=options)
        check_results(jobs.root, state, stage)
        _check(jobs, state, stage, diagnostic)
        return outcome
    check_edits(jobs.service, id_)
    stop_all(jobs)
    with jobs.sole(id_):
        return _dispatch(jobs, id_, mode, options, diagnostic)


def _dispatch(jobs: Jobs, id_: str, mode: Mode, options: WriteOptions, diagnostic: bool) -> Outcome:
    first = jobs.service.first_answer(options)
    if first is not None:
        return first
    state = jobs.service.state()
    stage = state.stage(id_)
    if at_work := take_up(jobs, state, stage, options):
        return at_work
    asked = _asked_for(jobs, state, stage, mode, diagnostic)
    jobs.service.rehearse(asked)
    stop_earlier(jobs, stage)
    check_start(jobs, state, stage)
    if is_sweep(stage.parameters):
        from reconciler.sweep.judging import close, unclosed  # only if a stage has tasks

        for ended in unclosed(jobs.root, state, stage):
            state = jobs.record(close(state, state.stage(id_), ended, stopped=True)).state
    stage = state.stage(id_)
    kept = make_room(jobs, state, stage)
    attempt = next_attempt(jobs, state, stage, diagnostic)
    try:
        command = prepare(jobs, state, stage, attempt, mode, diagnostic=diagnostic)
    except NeedsConsent as refusal:
        jobs.service.writer.record_refusal([asked], refusal)
        raise
    outcome = jobs.service.handle(command, options=options)
    jobs.tell(outcome)
    if kept:
        jobs.record(p.NoteLogged(stage=id_, text=f"outputs kept as {stage.keep_as}"))
    recorded = replace(attempt, sha256=command.submission_sha256)
    check_recorded(recorded)
    launch(jobs, stage, recorded, mode)
    return outcome


def check_start(jobs: Jobs, state: Workflow, stage: Stage, *, again: bool = False) -> None:
    """Raise the reason why no job of the stage may start now; write nothing.

    ``again``: the job takes the place of the newest attempt, and reads the files that this
    attempt read. Raises `ChangedResult`, `InputsChanged`, `StrangerAtWork`.
    """
    check_results(jobs.root, state, stage)
    if again:
        check_inputs_unchanged(jobs.root, state, stage)
    check_strangers(jobs, state, stage)


def make_room(jobs: Jobs, state: Workflow, stage: Stage) -> bool:
    """Keep what an amendment made stale, before anything new is written in its place.

    Returns whether there is a kept folder now that the log has not told of.
    """
    names = stage.parameters.get("forward_files") or []
    read = [*stage.inputs, *(f"{stage.id}/{name}" for name in names)]
    left = [p for p in stage.left_in_place if not any(fnmatchcase(p, name) for name in read)]
    left += stage.outputs
    if stage.keeps_tasks:
        from reconciler.sweep import tasks

        kept = tasks.keep(jobs.root, state, stage)
    else:
        left += [f"{stage.id}/{DONE}"] if is_sweep(stage.parameters) else []
        kept = stage.keep_as is not None and keep(jobs.root, stage.id, stage.keep_as, left)
    keep_round(jobs.root, state, stage, left)
    prepared = f"{stage.id}/{PREPARED}"
    anew = stage.regenerate and stage.parameters.get("command")
    previous = stage.attempt.name if stage.attempt else None
    if anew and set_aside(jobs.root, stage.id, prepared, previous):
        jobs.say(f"{prepared} was made for earlier parameters; it is built anew", stage=stage.id)
    return kept


def next_attempt(jobs: Jobs, state: Workflow, stage: Stage, diagnostic: bool) -> AttemptPaths:
    """Return where the next attempt of the stage is to keep its files."""
    return jobs.attempt(state, stage, f"att-{len(stage.attempts) + 1:04d}", diagnostic=diagnostic)


def _asked_for(
    jobs: Jobs, state: Workflow, stage: Stage, mode: Mode, diagnostic: bool
) -> p.AttemptStarted:
    """Return the command as far as it is known before anything is prepared."""
    attempt = next_attempt(jobs, state, stage, diagnostic)
    # By a mandate the files are a condition of the attempt.
    scripts = scripts_of(jobs.root, state, stage) if state.mandate_of(stage) else {}
    known: dict[str, Any] = {"diagnostic": diagnostic, "scripts": scripts}
    return begun(attempt, mode, submission_sha256="0" * 64, **known)


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
    carried = None if diagnostic else clearing.to_carry(jobs, stage)
    if diagnostic:
        given = kept_diagnostic(attempt, given)
    given = submitted(jobs.root, state, stage, given)
    try:
        tasks = None
        if is_sweep(stage.parameters):
            from reconciler.sweep.assignment import assigned, tasks_to_compute

            given = assigned(jobs.root, state, stage, attempt, given, inputs, recovers)
            tasks = tasks_to_compute(attempt)
        elif carried is not None:
            given = clearing.sending(given, attempt, carried)
        sha256 = jobs.runner.prepare(attempt, given)
    except BaseException:
        # Nobody else has written there, and what is carried has a second name.
        for folder in (attempt.tasks, attempt.carried):
            shutil.rmtree(folder, ignore_errors=True)
        raise
    told = {*needed, *results_read(given, attempt)}
    own = f"{stage.id}/{ATTEMPTS}/"
    paths = [path for path in forward(attempt) if path not in told and not path.startswith(own)]
    sent = digests(jobs.root, paths)
    known = {**used_by(jobs.root, state, stage, [*inputs, *sent]), "recovers": recovers}
    known |= {"diagnostic": diagnostic, "tasks": tasks}
    known["beside"] = beside(jobs.root, state, stage)
    if not execution_host.of(attempt).is_far:
        known["environment"] = execution_host.environment_told(attempt)
    if carried is not None:
        known |= {"carried": list(carried.files), "carried_from": carried.source}
    return begun(attempt, mode, submission_sha256=sha256, **known)


def _check(jobs: Jobs, state: Workflow, stage: Stage, diagnostic: bool) -> None:
    """Raise what preparing an attempt of the stage would raise, and write nothing."""
    check_pinned(jobs, state, stage.id)
    check_inputs(jobs.root, needed_by(state, stage))
    if is_sweep(stage.parameters):
        from reconciler.sweep.map_points import points_of

        points_of(jobs.root, state, stage, anew=True)
    given = submission_of(jobs.root, state, stage, anew=stage.regenerate)
    attempt = next_attempt(jobs, state, stage, diagnostic)
    jobs.runner.check(attempt, diagnostic_of(given) if diagnostic else given)


def launch(
    jobs: Jobs, stage: Stage, attempt: AttemptPaths, mode: Mode, *, known: bool = False
) -> None:
    """Start a monitor of an attempt and record that it was launched.

    What earlier attempts wrote where it writes is put aside, but for what it reads. ``known`` says
    that it was launched and recorded before: then its new jobs are recorded alone.
    """
    read = set(forward(attempt))
    tables = table_of(stage.id) if is_sweep(stage.parameters) else ()
    left = [path for path in stage.left_in_place if path not in read]
    earlier = [one.name for one in stage.attempts if one.id != attempt.id]
    # A table that grows from round to round is written over: it holds what it held.
    outputs = [] if tables and stage.attempts and stage.attempts[-1].round > 1 else stage.outputs
    paths = list(dict.fromkeys([*outputs, *(tables if outputs else ()), *left]))
    clear_stale(jobs.root, stage.id, paths, earlier[-1] if earlier else None)
    mode, facts, waited = attach(jobs, attempt, mode), jobs.runner.facts(attempt), 0.0
    while not facts.job_ids and waited < _FACTS_WITHIN:
        over = jobs.runner.wait(attempt, timeout=0.1)
        facts, waited = jobs.runner.facts(attempt), _FACTS_WITHIN if over else waited + 0.1
    # A monitor that died before it submitted has launched nothing: the reconciler goes on.
    if facts.job_ids or not (known or jobs.runner.wait(attempt, timeout=0)):
        jobs.record(launched(attempt, mode, facts))


def attach(jobs: Jobs, attempt: AttemptPaths, mode: Mode) -> Mode:
    """Start a monitor, or leave it to the one that is at work; return how it runs."""
    # The monitor of a synchronous attempt is detached too: it outlives anyone who waits for it, and
    # the stage is not held for as long as the job computes.
    detached = Mode.SETSID if mode is Mode.SYNC else mode
    try:
        launched = jobs.runner.launch(attempt, detached)
    except AlreadyMonitored:
        return mode
    if launched.note:
        jobs.say(launched.note, stage=attempt.stage, attempt=attempt.id)
    return mode if launched.mode is detached else launched.mode


def launched(attempt: AttemptPaths, mode: Mode, facts: SubmissionFacts) -> p.StageLaunched:
    """Return the command that records a launch."""
    return p.StageLaunched(
        stage=attempt.stage,
        attempt=attempt.id,
        mode=mode.value,
        session=attempt.session if mode is Mode.TMUX else None,
        **{name: value for name, value in facts.to_dict().items() if name != "job_hashes"},
    )
