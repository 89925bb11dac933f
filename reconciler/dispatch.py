"""Launching an attempt: what is submitted is fixed and recorded before any process starts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lifecycle import payload as p
from lifecycle.errors import Refused
from lifecycle.workflow import Stage, Workflow
from reconciler import processes, submission, tmux
from reconciler.archive import keep
from reconciler.attempt import Attempt
from reconciler.errors import AlreadyMonitored
from reconciler.jobs import Jobs
from reconciler.markers import check_inputs, clear_stale, set_aside
from reconciler.parameters import environment
from reconciler.runner import Facts, Mode
from reconciler.superseded import stop_superseded
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


class RemoteBackend(Refused):
    """A backend that this version does not launch on."""

    code = "backend_not_supported"

    def __init__(self, stage: str, backend: str, kind: str) -> None:
        super().__init__(
            f"{stage} runs on the {kind} backend {backend!r}; this version launches on local "
            "Shell backends only.",
            stage=stage,
            backend=backend,
        )


def dispatch(jobs: Jobs, id_: str, *, sync: bool, options: WriteOptions) -> Outcome:
    """Launch an attempt of the stage; ``sync`` says that the caller waits for its end.

    Raises what the rules and the runner raise; before `attempt.started` is recorded nothing
    runs, and after it nothing is lost.
    """
    state = jobs.service.state()
    stage = state.stage(id_)
    mode = _mode(jobs, sync)
    options = replace(options, content={"dispatch": id_, "sync": sync})
    if options.dry_run:
        return jobs.service.handle(_asked(jobs, state, stage, mode), options=options)
    stop_superseded(jobs)
    with jobs.sole(id_):
        return _dispatch(jobs, id_, mode, options)


def _dispatch(jobs: Jobs, id_: str, mode: Mode, options: WriteOptions) -> Outcome:
    first = jobs.service.first_answer(options)
    if first is not None:
        return first
    state = jobs.service.state()
    stage = state.stage(id_)
    jobs.service.rehearse(_asked(jobs, state, stage, mode))
    previous = stage.attempt.id if stage.attempt else None
    _make_room(jobs, stage, previous)
    attempt = jobs.attempt(state, stage, _next_id(stage))
    command = prepare(jobs, state, stage, attempt, mode)
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
    anew = stage.regenerate and stage.parameters.get("command")
    if anew and set_aside(jobs.root, stage.id, prepared, previous):
        jobs.say(f"{prepared} was made for earlier parameters; it is built anew")


def _mode(jobs: Jobs, sync: bool) -> Mode:
    if sync:
        return Mode.SYNC
    if tmux.is_installed(os.environ):
        return Mode.TMUX
    jobs.say(tmux.MISSING)
    return Mode.SETSID


def _next_id(stage: Stage) -> str:
    return f"att-{len(stage.attempts) + 1:04d}"


def _asked(jobs: Jobs, state: Workflow, stage: Stage, mode: Mode) -> p.AttemptStarted:
    """Return the command as far as it is known before anything is prepared."""
    attempt = jobs.attempt(state, stage, _next_id(stage))
    return _command(attempt, mode, "0" * 64)


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
) -> p.AttemptStarted:
    """Write and check what the attempt submits; return the command that records it."""
    inputs = check_inputs(jobs.root, stage.inputs)
    given = submission_of(jobs, state, stage)
    sha256 = jobs.runner.prepare(attempt, given)
    digests = [p.FileDigest(path=i.path, size=i.size, sha256=i.sha256) for i in inputs]
    return _command(attempt, mode, sha256, inputs=digests, recovers=recovers)


def has_command(jobs: Jobs, stage: Stage) -> bool:
    """Whether the stage says what is to be run."""
    prepared = jobs.root / stage.id / "submission.json"
    return bool(stage.parameters.get("command")) or prepared.is_file()


def submission_of(jobs: Jobs, state: Workflow, stage: Stage) -> dict[str, Any]:
    """Return the submission as it was prepared, else as the stage's parameters describe it."""
    backend = stage.backend or state.default_backend
    kind = state.backend_type(stage)
    if kind != "local":
        raise RemoteBackend(stage.id, backend, kind)
    if not has_command(jobs, stage):
        raise NoStageCommand([stage.id])
    prepared = jobs.root / stage.id / "submission.json"
    if prepared.is_file():
        return submission.read(prepared)
    built = submission.build(_job(stage), state.profile(stage))
    resources = built["resources"]
    own = environment(stage.parameters)
    return {**built, "resources": {**resources, "envs": {**own, **resources.get("envs", {})}}}


def _job(stage: Stage) -> submission.StageJob:
    given = stage.parameters
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


def launch(jobs: Jobs, attempt: Attempt, mode: Mode) -> None:
    """Start a monitor of an attempt and record that it was launched."""
    mode = attach(jobs, attempt, mode)
    if mode is not Mode.SYNC:
        _record_launch(jobs, attempt, mode)


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
        jobs.say(launched.note)
    return mode if launched.mode is detached else launched.mode


def _record_launch(jobs: Jobs, attempt: Attempt, mode: Mode) -> None:
    """Wait until the runner knows its submission, and record what it told."""
    facts = _facts(jobs, attempt)
    # A monitor that died before it submitted has launched nothing: the reconciler goes on.
    if facts.job_ids or not jobs.runner.wait(attempt, timeout=0):
        jobs.record(launched(attempt, mode, facts))


def launched(attempt: Attempt, mode: Mode, facts: Facts) -> p.StageLaunched:
    """Return the command that records a launch."""
    return p.StageLaunched(
        stage=attempt.stage,
        attempt=attempt.id,
        mode="tmux" if mode is Mode.TMUX else "setsid",
        session=attempt.session if mode is Mode.TMUX else None,
        submission_hash=facts.submission_hash,
        job_ids=list(facts.job_ids),
        host=facts.host,
        boot_id=facts.boot_id,
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
