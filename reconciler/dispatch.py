"""Launching an attempt: what is submitted is fixed and recorded before any process starts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lifecycle import payload as p
from lifecycle.errors import Refused
from lifecycle.status import Status
from lifecycle.workflow import Stage, Workflow
from reconciler import processes, shape, submission, tmux
from reconciler.archive import keep
from reconciler.attempt import Attempt
from reconciler.diagnostic import diagnostic_of, kept_diagnostic
from reconciler.errors import AlreadyMonitored
from reconciler.jobs import Jobs
from reconciler.markers import check_inputs, clear_stale, digests, set_aside
from reconciler.parameters import environment
from reconciler.runner import Facts, Mode
from reconciler.stopping import stop_all, stop_earlier
from reconciler.traces import forward
from service.service import Outcome, WriteOptions

#: Seconds that a launch may take to say what its submission is called.
_FACTS_WITHIN = 20.0


class NoStageCommand(Refused):
    """A stage that says nothing about what is to be run."""

    code = "no_stage_command"

    def __init__(self, stages: Sequence[str]) -> None:
        names = ", ".join(stages)
        super().__init__(
            f"{names}: nothing to run; expected parameters.command in the plan or a prepared "
            f"{stages[0]}/submission.json. Write the submission, or change the parameters by an "
            "amendment.",
            stages=list(stages),
        )


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
    mode = _mode(jobs, sync)
    content = {"dispatch": id_, "sync": sync} | ({"diagnostic": True} if diagnostic else {})
    options = replace(options, content=content)
    if options.dry_run:
        asked = _asked(jobs, state, stage, mode, diagnostic)
        outcome = jobs.service.handle(asked, options=options)
        _check(jobs, state, stage, diagnostic)
        return outcome
    stop_all(jobs)
    with jobs.sole(id_):
        return _dispatch(jobs, id_, mode, options, diagnostic)


def _dispatch(jobs: Jobs, id_: str, mode: Mode, options: WriteOptions, diagnostic: bool) -> Outcome:
    first = jobs.service.first_answer(options)
    if first is not None:
        return first
    state = jobs.service.state()
    stage = state.stage(id_)
    jobs.service.rehearse(_asked(jobs, state, stage, mode, diagnostic))
    stop_earlier(jobs, stage)
    previous = stage.attempt.id if stage.attempt else None
    _make_room(jobs, stage, previous)
    attempt = jobs.attempt(state, stage, _next_id(stage), diagnostic=diagnostic)
    command = prepare(jobs, state, stage, attempt, mode, diagnostic=diagnostic)
    outcome = jobs.service.handle(command, options=options)
    jobs.tell(outcome)
    clear_stale(jobs.root, stage.id, stage.outputs, previous)
    launch(jobs, attempt, mode)
    return outcome


def _make_room(jobs: Jobs, stage: Stage, previous: str | None) -> None:
    """Keep what an amendment made stale, before anything new is written in its place."""
    if stage.keep_as is not None:
        keep(jobs.root, stage.id, stage.keep_as, stage.outputs)
    prepared = f"{stage.id}/submission.json"
    if _is_built_anew(stage) and set_aside(jobs.root, stage.id, prepared, previous):
        jobs.say(f"{prepared} was made for earlier parameters; it is built anew", stage=stage.id)


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


def _command(attempt: Attempt, mode: Mode, sha256: str, **known: Any) -> p.AttemptStarted:
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
    attempt: Attempt,
    mode: Mode,
    recovers: str | None = None,
    diagnostic: bool = False,
) -> p.AttemptStarted:
    """Write and check what the attempt submits; return the command that records it.

    What it computes from is recorded as it is now: the inputs and what its dependencies have left,
    which must not be empty, and all else that its submission sends.
    """
    needed = _needed(state, stage)
    inputs = check_inputs(jobs.root, needed)
    given = submission_of(jobs, state, stage)
    if diagnostic:
        given = kept_diagnostic(attempt, given)
    sha256 = jobs.runner.prepare(attempt, given)
    sent = digests(jobs.root, [path for path in forward(attempt) if path not in needed])
    used = [p.FileDigest(path=i.path, size=i.size, sha256=i.sha256) for i in (*inputs, *sent)]
    known = {"inputs": used, "recovers": recovers, "diagnostic": diagnostic}
    return _command(attempt, mode, sha256, **known)


def _check(jobs: Jobs, state: Workflow, stage: Stage, diagnostic: bool) -> None:
    """Raise what preparing an attempt of the stage would raise, and write nothing."""
    check_inputs(jobs.root, _needed(state, stage))
    given = submission_of(jobs, state, stage, anew=_is_built_anew(stage))
    attempt = jobs.attempt(state, stage, _next_id(stage), diagnostic=diagnostic)
    jobs.runner.check(attempt, diagnostic_of(given) if diagnostic else given)


def _needed(state: Workflow, stage: Stage) -> list[str]:
    return list(dict.fromkeys([*stage.inputs, *_left_by_dependencies(state, stage)]))


def _left_by_dependencies(state: Workflow, stage: Stage) -> list[str]:
    """Return the outputs of the stages that this one depends on, skipped ones aside."""
    done = [state.stages[id_] for id_ in stage.depends_on]
    return [path for one in done if one.status is Status.COMPLETED for path in one.outputs]


def has_command(jobs: Jobs, stage: Stage) -> bool:
    """Whether the stage says what is to be run."""
    prepared = jobs.root / stage.id / "submission.json"
    return bool(stage.parameters.get("command")) or prepared.is_file()


def submission_of(
    jobs: Jobs, state: Workflow, stage: Stage, *, anew: bool = False
) -> dict[str, Any]:
    """Return the submission as it was prepared, else as the stage's parameters describe it.

    ``anew``: what was prepared does not count.
    """
    if not has_command(jobs, stage):
        raise NoStageCommand([stage.id])
    prepared = jobs.root / stage.id / "submission.json"
    if prepared.is_file() and not anew:
        return submission.read(prepared)
    built = submission.build(_job(stage), state.profile(stage))
    resources = built["resources"]
    own = environment(stage.parameters)
    return {**built, "resources": {**resources, "envs": {**own, **resources.get("envs", {})}}}


def _job(stage: Stage) -> submission.StageJob:
    given = {name: value for name, value in stage.parameters.items() if value is not None}
    shape.text(given, ["command"], "parameters.")
    shape.texts(given, ["forward_files", "backward_files"], "parameters.")
    shape.objects(given, ["resource_overrides"], "parameters.")
    backward = given.get("backward_files")
    return submission.StageJob(
        stage=stage.id,
        command=str(given["command"]),
        forward_files=tuple(given.get("forward_files", ())),
        backward_files=tuple(backward) if backward is not None else None,
        inputs=tuple(stage.inputs),
        outputs=tuple(stage.outputs),
        resource_overrides=given.get("resource_overrides", {}),
    )


def launch(jobs: Jobs, attempt: Attempt, mode: Mode, *, known: bool = False) -> None:
    """Start a monitor of an attempt and record that it was launched.

    ``known`` says that it was launched and recorded before: then its new jobs are recorded alone.
    """
    _record_launch(jobs, attempt, attach(jobs, attempt, mode), known)


def attach(jobs: Jobs, attempt: Attempt, mode: Mode) -> Mode:
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


def _record_launch(jobs: Jobs, attempt: Attempt, mode: Mode, known: bool) -> None:
    """Wait until the runner knows its submission, and record what it told."""
    facts = _facts(jobs, attempt)
    # A monitor that died before it submitted has launched nothing: the reconciler goes on.
    if facts.job_ids or not (known or jobs.runner.wait(attempt, timeout=0)):
        jobs.record(launched(attempt, mode, facts))


def launched(attempt: Attempt, mode: Mode, facts: Facts) -> p.StageLaunched:
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


def _facts(jobs: Jobs, attempt: Attempt) -> Facts:
    waited = 0.0
    while waited < _FACTS_WITHIN:
        facts = jobs.runner.facts(attempt)
        if facts.job_ids or jobs.runner.wait(attempt, timeout=0.1):
            return jobs.runner.facts(attempt)
        waited += 0.1
    return jobs.runner.facts(attempt)
