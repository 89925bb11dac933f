"""Attempts at work that this root began and its log lost: it was restored, or lost its tail.

Such an attempt is recorded once more, from its own folder, and judged as any other; nothing is
computed beside it. It is known by the claim of its start, which lies in ``.wfctl`` and so is gone
where a workflow was begun anew, by a log that is older than its launch, and by a submission that
is as the stage is defined.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

from eventstore.regular import NotRegular
from lifecycle.errors import LifecycleError
from lifecycle.payload import models as p
from lifecycle.state.basis import needed_by
from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import is_sweep
from reconciler.attempt.paths import AttemptPaths
from reconciler.attempt.recorded import digest_of
from reconciler.context import Jobs
from reconciler.control import strangers
from reconciler.errors import ReconcilerError
from reconciler.files.described import submission_of, used_by_launched
from reconciler.records.launch_record import launched, told
from reconciler.records.traces import read_json
from reconciler.submission.parameters import placed
from service.root.clock import utc_text

Lost = tuple[p.AttemptStarted, str]
"""The start of an attempt that the log lost, and when it was (UTC, the log's form)."""

_SECOND = 1_000_000_000


def lost(jobs: Jobs, state: Workflow, stage: Stage) -> Lost | None:
    """Return the start of the one attempt at work that the log lost, as it is to be recorded."""
    if stage.status not in (Status.READY, Status.PREPARING) or stage.open_attempt is not None:
        return None
    found = list(_at_work(jobs, state, stage))
    return _started(jobs, state, stage, found[0]) if len(found) == 1 else None


def _at_work(jobs: Jobs, state: Workflow, stage: Stage) -> Iterator[AttemptPaths]:
    for one in strangers.of(jobs, state, stage):
        with suppress(LifecycleError, ReconcilerError, OSError, NotRegular):
            if (
                _is_of_this_log(jobs, state, stage, one)
                and strangers.may_compute(strangers.looked_at(jobs, stage, one)[1])
                and _is_as_defined(jobs, state, stage, one)
            ):
                yield one


def _is_of_this_log(jobs: Jobs, state: Workflow, stage: Stage, one: AttemptPaths) -> bool:
    """Whether the log had begun when the attempt was launched, on inputs that are as they were."""
    began = launched(one)
    if not (one.starts.exists() and began):
        return False
    if began < datetime.fromisoformat(state.created).timestamp() * _SECOND:
        return False
    there = (told(jobs.root / path) for path in needed_by(state, stage))
    return all(found is None or found[2] <= began for found in there)


def _is_as_defined(jobs: Jobs, state: Workflow, stage: Stage, one: AttemptPaths) -> bool:
    """Whether the stage would submit the same, to the letter; what a sweep shares out is not told.

    A log that was lost and a definition that was changed since leave a stranger.
    """
    if is_sweep(stage.parameters):
        return False
    would_be = replace(one, outputs=tuple(stage.declared_outputs))
    given = placed(submission_of(jobs.root, state, stage), stage.inputs)
    digest = jobs.runner.check(would_be, given)
    return digest == digest_of(one.submission.read_text("utf-8"))


def _started(jobs: Jobs, state: Workflow, stage: Stage, one: AttemptPaths) -> Lost:
    """Return what is known of an attempt from its own folder, and when it was so."""
    record = read_json(one.launch_record) or {}
    submission = str(one.submission.relative_to(jobs.root))
    moment = datetime.fromtimestamp((launched(one) or 0) / _SECOND, UTC)
    started = p.AttemptStarted(
        stage=stage.id,
        mode="tmux",
        root=str(record.get("root", jobs.root)),
        work_dir=str(one.work.relative_to(jobs.root)),
        submission=submission,
        wrapper=str(one.wrapper.relative_to(jobs.root)),
        session=one.session,
        host=record.get("host"),
        boot_id=record.get("boot_id"),
        **used_by_launched(jobs.root, state, stage, submission),
    )
    return started, utc_text(min(moment, jobs.service.clock()))


def tell(jobs: Jobs, stage: str, started: p.AttemptStarted) -> None:
    """Say that an attempt was taken up again."""
    jobs.say(
        f"{stage}: {started.work_dir.rpartition('/')[0]} was begun here, is at work, and the log "
        "had lost it; it is taken up again, and nothing is computed beside it",
        level="warning",
        stage=stage,
    )


def take_up_all(jobs: Jobs, state: Workflow) -> Workflow:
    """Take up every attempt that the log lost; return the state then."""
    for id_ in [stage.id for stage in state.stages.values() if _may_be(jobs, state, stage)]:
        with jobs.sole(id_):
            state = jobs.service.state()
            found = lost(jobs, state, state.stage(id_))
            if found is None:
                continue
            try:
                jobs.record_each(found)
            except LifecycleError as error:
                jobs.say(f"{id_}: {error.message}", level="warning", stage=id_)
            else:
                tell(jobs, id_, found[0])
                state = jobs.service.state()
    return state


def _may_be(jobs: Jobs, state: Workflow, stage: Stage) -> bool:
    waits = stage.status in (Status.READY, Status.PREPARING) and stage.open_attempt is None
    return waits and any(one.starts.exists() for one in strangers.of(jobs, state, stage))
