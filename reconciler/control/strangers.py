"""Findings on attempts: ours, lost ones, and strangers'."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from eventstore.private import NotRegular
from lifecycle.errors import LifecycleError, Refused
from lifecycle.payload import models as p
from lifecycle.rules.stages import can_recover
from lifecycle.state.conditions import needed_by
from lifecycle.state.status import Status
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import is_sweep
from projections.words.text import epoch
from reconciler.attempt import execution_host as machine
from reconciler.attempt.markers import SeenMarker
from reconciler.attempt.observed import ObservedJob
from reconciler.attempt.paths import ATTEMPTS, LAUNCH_RECORD, AttemptPaths, digest_of, named
from reconciler.context import Jobs, Mode
from reconciler.dpdispatcher.watch import AGAIN, surely
from reconciler.errors import DamagedAttempt, ReconcilerError
from reconciler.evidence.collect import Survey, collect, surveyed
from reconciler.evidence.evidence import Evidence
from reconciler.evidence.foreign import add_foreign_launch
from reconciler.files import by_hand
from reconciler.files.described import submission_of, submitted, used_by_launched
from reconciler.host import processes
from reconciler.records.traces import forward, launch_told, launched, read_json
from reconciler.verdict.table import (
    Action,
    Verdict,
    is_purged,
    unreadable_verdict,
    verdict,
    verdict_after_move,
    verdict_on_stranger,
)
from service.root.disk import utc_text
from service.root.root import original_of, was_here
from service.writing.stream_writer import WriteOptions
from service.writing.workflow_service import Outcome
from wording import Worded

#: Monitors that ended for the same reason, one after the other, before another is of no use.
IN_VAIN = 3
#: What comes of a file that is not as it was written.
DAMAGES = (OSError, ValueError, LookupError, TypeError, AttributeError, ReconcilerError)


@dataclass(frozen=True, slots=True)
class AttemptFinding:
    """What was seen of one attempt, and what is to be done about it."""

    stage: str
    attempt: str
    evidence: Evidence
    verdict: Verdict
    steps: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "stage": self.stage,
            "attempt": self.attempt,
            "verdict": self.verdict.to_dict(),
            "action": self.verdict.action.value,
            "steps": list(self.steps),
            "evidence": self.evidence.to_dict(),
        }


def in_flight(state: Workflow) -> list[Stage]:
    """Return the stages with an attempt whose end is not recorded, in array order."""
    return [stage for stage in state.stages.values() if is_in_flight(stage)]


def is_in_flight(stage: Stage) -> bool:
    """Say whether the stage has an attempt whose end is not recorded."""
    under_way = stage.status in (Status.PREPARING, Status.RUNNING)
    return under_way and stage.open_attempt is not None


def look(jobs: Jobs, state: Workflow, stage: Stage, *, again: bool = False) -> AttemptFinding:
    """Collect the evidence on the stage's attempt and judge it.

    ``again`` says that what is missing now was missing at an earlier look too.
    """
    if again:
        return _look_once(jobs, state, [stage], again=True)[stage.id]
    return look_at_all(jobs, state, [stage])[0]


def look_at_all(jobs: Jobs, state: Workflow, stages: Sequence[Stage]) -> list[AttemptFinding]:
    """Look at each; what is missing for the first time is looked for again, some seconds later.

    A scheduler forgets a job, and another machine shows a file, in their own time.
    """
    found = _look_once(jobs, state, stages, again=False)
    missing = [stage for stage in stages if found[stage.id].verdict.needs_second_look]
    if missing:
        time.sleep(AGAIN)
        found |= _look_once(jobs, state, missing, again=True)
    return [found[stage.id] for stage in stages]


def _look_once(
    jobs: Jobs, state: Workflow, stages: Sequence[Stage], *, again: bool
) -> dict[str, AttemptFinding]:
    """Return the findings by stage; one damaged attempt stops nobody else."""
    attempts = {stage.id: newest_attempt(jobs, state, stage) for stage in stages}
    damaged = dict[str, Exception]()
    for id_, attempt in attempts.items():
        try:
            machine.of(attempt)
        except DAMAGES as error:
            damaged[id_] = error
    survey = surveyed([one for id_, one in attempts.items() if id_ not in damaged])
    found = dict[str, AttemptFinding]()
    for stage in stages:
        attempt = attempts[stage.id]
        try:
            if stage.id in damaged:
                raise damaged[stage.id]
            evidence, judged = _judged(jobs, state, survey, stage, attempt, again=again)
        except DAMAGES as error:
            evidence, judged = _unreadable(jobs, attempt, error)
        steps = tuple(_spelled(stage, evidence, judged))
        found[stage.id] = AttemptFinding(stage.id, attempt.id, evidence, judged, steps)
    return found


def _unreadable(jobs: Jobs, attempt: AttemptPaths, error: Exception) -> tuple[Evidence, Verdict]:
    evidence = Evidence(
        observed_at=jobs.now(),
        attempt=attempt.tag,
        root_now=str(attempt.root),
        host_now=processes.host(),
        boot_now=processes.boot_id(),
    )
    if not isinstance(error, ReconcilerError):
        error = DamagedAttempt(attempt.stage, attempt.folder, f"it cannot be read ({error})")
    return evidence, unreadable_verdict(error.message)


def _judged(
    jobs: Jobs, state: Workflow, survey: Survey, stage: Stage, attempt: AttemptPaths, *, again: bool
) -> tuple[Evidence, Verdict]:
    recorded = stage.attempts[-1]
    # Session and markers alone tell of what was launched by hand, or imported without a folder. Of
    # an attempt that was launched for a log that was lost the folder tells as of any other.
    foreign = recorded.taken_over or not (recorded.submission_sha256 or attempt.folder.is_dir())
    evidence = collect(
        attempt,
        jobs.now(),
        # Of an attempt whose log was lost the launch record alone knows the place.
        recorded_root=recorded.root if foreign or recorded.submission_sha256 else None,
        recorded_host=recorded.host,
        recorded_boot=recorded.boot_id,
        survey=survey,
    )
    evidence = replace(
        evidence,
        looked_twice=again,
        last_chance=not can_recover(stage),
        in_vain=recorded.relaunches_alike >= IN_VAIN,
        verifiable=bool(stage.parameters.get("verify")),
    )
    if is_purged(evidence) and not evidence.jobs:
        # The ids in the log are the only trace of the jobs.
        evidence = replace(
            evidence, jobs=tuple(ObservedJob(id_, id=id_) for id_ in recorded.job_ids)
        )
    if foreign:
        evidence = add_foreign_launch(evidence, state, stage, jobs.root)
    found = verdict(evidence)
    if found.is_elsewhere and was_here(jobs.service.root, recorded.root, recorded.host):
        evidence, found = verdict_after_move(evidence)
    elif found.is_elsewhere and (original := original_of(jobs.service.root)) is not None:
        why = (
            f"it belongs to {original}, of which this root is a copy, and is left to it; to "
            f"compute it here as well, `wfctl stage fail {stage.id} --error copied`, then `wfctl "
            f"stage retry {stage.id} --fix TEXT`"
        )
        found = replace(found, reason=why)
    elif found.is_elsewhere and evidence.root_recorded == evidence.root_now:
        why = (
            f"it was launched on {evidence.host_recorded}, and this host is {evidence.host_now}: "
            "go back there. Where it is the same machine, or that one is gone for good: `wfctl "
            "--root-is moved rehydrate`"
        )
        found = replace(found, reason=why)
    if is_sweep(stage.parameters) and not foreign:
        from reconciler.sweep.judging import judged

        found = judged(state, stage, attempt, found)
    return evidence, found


def newest_attempt(jobs: Jobs, state: Workflow, stage: Stage) -> AttemptPaths:
    """Return where the newest attempt of the stage keeps its files."""
    return jobs.attempt(state, stage, stage.attempts[-1].id)


def _spelled(stage: Stage, evidence: Evidence, found: Verdict) -> Iterator[str]:
    """Say in words what a verdict leads to."""
    again = "start a new attempt, not counted as a retry"
    words = {
        Action.WAIT: "wait for it",
        Action.ATTACH: "attach a monitor to it; nothing is computed again",
        Action.LAUNCH: "launch it",
        Action.SUCCEEDED: "record that it was computed",
        Action.FAILED: "record that it failed",
        Action.LOST: again if can_recover(stage) else "record that it failed: lost twice",
        Action.UNKNOWN: "change nothing, ask again later",
    }
    if lacks_launch(stage, evidence, found):
        yield "record that it was launched"
    yield words[found.action]


def lacks_launch(stage: Stage, evidence: Evidence, found: Verdict) -> bool:
    """Say whether an attempt that was launched is not recorded as such, or without its jobs."""
    recorded = stage.attempts[-1]
    # Only an attempt of ours keeps the records from which its job ids are recorded.
    unread = recorded.taken_over or not any(job.id for job in evidence.jobs)
    has_ids = recorded.job_ids or unread
    was_launched = found.action in (Action.WAIT, Action.ATTACH, Action.SUCCEEDED)
    return was_launched and not (recorded.launched_at is not None and has_ids)


class StrangerAtWork(Worded, Refused):
    """An attempt that the log does not know computes, or may, in the folder of the stage."""

    code = "stranger_at_work"
    text = (
        "{stage}: {folder} holds an attempt that this log does not know, of an earlier life "
        "of the workflow or of a log that was lost: {why}{at_work}. Nothing is started beside "
        "it: wait until it has ended, or end it; where it is known to be over, move its folder "
        "away. Then try again. What it computed is never taken for this workflow's own."
    )
    untold = ("why", "at_work")
    stage: str
    folder: Path
    why: str
    at_work: str


def check_strangers(jobs: Jobs, state: Workflow, stage: Stage) -> None:
    """Tell of results that strangers left; raises `StrangerAtWork` if one may be at work."""
    for stranger in _of(jobs, state, stage):
        evidence, found = _looked_at(jobs, stage, stranger)
        if may_compute(found):
            who = [f"process {tenant.pid}" for tenant in evidence.tenants or ()]
            who += [f"job {job.id}" for job in evidence.jobs if job.id is not None]
            at_work = f" ({', '.join(who)})" if who else ""
            raise StrangerAtWork(stage.id, stranger.folder, found.reason, at_work)
        if found.is_uncollected or _is_in_place(evidence, found):
            where = "left where it lies" if evidence.copies else "kept aside"
            jobs.say(
                f"{stage.id}: {stranger.folder} holds the result of an attempt that this log knows "
                f"nothing of; it is {where} and not used",
                level="warning",
                stage=stage.id,
            )


def _looked_at(jobs: Jobs, stage: Stage, stranger: AttemptPaths) -> tuple[Evidence, Verdict]:
    """Look at a stranger; at one that is listed no more once again, as at any other attempt."""

    def look_once(again: bool) -> tuple[Evidence, Verdict]:
        try:
            evidence = replace(collect(stranger, jobs.now()), looked_twice=again)
        except DAMAGES as error:
            why = f"it cannot be read ({error})"
            raise StrangerAtWork(stage.id, stranger.folder, why, "") from error
        # In a copy of its root nothing of it is at work, and after a move what is shows itself.
        return verdict_on_stranger(evidence)

    return surely(look_once)


def _of(jobs: Jobs, state: Workflow, stage: Stage) -> Iterator[AttemptPaths]:
    """Yield the attempts whose folders lie in the stage and which its log does not know."""
    known = {attempt.name for attempt in stage.attempts}
    for record in sorted((jobs.root / stage.id / ATTEMPTS).glob(f"att-*/{LAUNCH_RECORD}")):
        name = record.parent.name
        if name not in known:
            outputs = tuple(stage.declared_outputs)
            yield named(jobs.root, state.id, stage.id, name, outputs)


def may_compute(found: Verdict) -> bool:
    """Whether an attempt is at work, or may be."""
    at_work = found.action in (Action.WAIT, Action.ATTACH, Action.UNKNOWN)
    return at_work and not found.is_uncollected


_SECOND = 1_000_000_000


def _is_in_place(evidence: Evidence, found: Verdict) -> bool:
    """Return whether an attempt has ended well, and no other attempt has ended since."""
    succeeded = found.action is Action.SUCCEEDED
    return succeeded and evidence.done_marker.seen is SeenMarker.OWN


@dataclass(frozen=True, slots=True)
class LostAttempt:
    """An attempt that the log lost: the command that records its start, and when it started.

    ``is_over`` is true if the attempt has ended and its result is taken.
    """

    started: p.AttemptStarted
    since: str
    is_over: bool


def _lost(jobs: Jobs, state: Workflow, stage: Stage) -> LostAttempt | None:
    """Return the one attempt that the log lost and that the stage goes on with; None without one.

    It is at work, or it has ended well and is what the stage would compute now.
    """
    if not by_hand.is_free(stage):
        return None
    found = list[tuple[AttemptPaths, bool]]()
    for one in _of(jobs, state, stage):
        with suppress(LifecycleError, ReconcilerError, OSError, NotRegular):
            if not _is_since(jobs, state, stage, one):
                continue
            evidence, judged = _looked_at(jobs, stage, one)
            if may_compute(judged):
                goes_on, is_over = one.starts.exists(), False
            else:
                goes_on, is_over = _is_usable(jobs.root, stage, one, evidence, judged), True
            if goes_on and _is_as_defined(jobs, state, stage, one):
                found.append((one, is_over))
    if len(found) != 1:
        return None
    ((one, is_over),) = found
    # What is known of it, from its own folder.
    record = read_json(one.launch_record) or {}
    rests_on = used_by_launched(jobs.root, state, stage, str(one.submission.relative_to(jobs.root)))
    moment = datetime.fromtimestamp((launched(one) or 0) / _SECOND, UTC)
    here = {"root": str(record.get("root", jobs.root)), "host": record.get("host")}
    started = begun(one, Mode.TMUX, **here, boot_id=record.get("boot_id"), **rests_on)
    return LostAttempt(started, utc_text(min(moment, jobs.service.clock())), is_over)


def _is_usable(
    root: Path, stage: Stage, one: AttemptPaths, evidence: Evidence, found: Verdict
) -> bool:
    """Return whether the result of an attempt that is over is what the stage would compute now.

    All files that it read are older than its launch. Its outputs are older than its marker, or
    wait in its scratch copy. The log has neither a newer attempt nor earlier results to keep.
    """
    newest, began = stage.attempt, launched(one) or 0
    earlier = epoch(newest.started_at) if newest is not None else None
    if stage.keep_as is not None or (earlier is not None and began < earlier * _SECOND):
        return False
    if not found.is_uncollected:
        marker = launch_told(one.done_marker)
        if marker is None or not _is_in_place(evidence, found):
            return False
        # Their change times are newer: their second names in the attempt's folder are removed.
        written = (file.stat().st_mtime_ns for path in one.outputs for file in _files(root / path))
        if any(moment > marker[2] for moment in written):
            return False
    changed = (file.stat().st_ctime_ns for path in forward(one) for file in _files(root / path))
    return all(moment <= began for moment in changed)


def _files(place: Path) -> Iterator[Path]:
    """Yield a file, or a folder and all that it holds."""
    yield place
    yield from place.rglob("*") if place.is_dir() else ()


def _is_since(jobs: Jobs, state: Workflow, stage: Stage, one: AttemptPaths) -> bool:
    """Whether the log had begun when the attempt was launched, on inputs that are as they were."""
    began = launched(one)
    since = epoch(state.created)
    if since is None or not began or began < since * _SECOND:
        return False
    there = (launch_told(jobs.root / path) for path in needed_by(state, stage))
    return all(found is None or found[2] <= began for found in there)


def _is_as_defined(jobs: Jobs, state: Workflow, stage: Stage, one: AttemptPaths) -> bool:
    """Whether the stage would submit the same, to the letter; what a sweep shares out is not told.

    A log that was lost and a definition that was changed since leave a stranger.
    """
    if is_sweep(stage.parameters):
        return False
    would_be = replace(one, outputs=tuple(stage.declared_outputs))
    given = submitted(jobs.root, state, stage, submission_of(jobs.root, state, stage))
    digest = jobs.runner.check(would_be, given)
    return digest == digest_of(one.submission.read_text("utf-8"))


def begun(attempt: AttemptPaths, mode: Mode, **known: Any) -> p.AttemptStarted:
    """Return the command that records an attempt: begun here and now, if ``known`` says nothing."""
    here = {"root": str(attempt.root), "host": processes.host(), "boot_id": processes.boot_id()}
    return p.AttemptStarted(
        stage=attempt.stage,
        mode=mode.value,
        work_dir=str(attempt.work.relative_to(attempt.root)),
        submission=str(attempt.submission.relative_to(attempt.root)),
        wrapper=str(attempt.wrapper.relative_to(attempt.root)),
        session=attempt.session if mode is Mode.TMUX else None,
        **{**here, **known},
    )


def take_up(
    jobs: Jobs, state: Workflow, stage: Stage, options: WriteOptions | None = None
) -> Outcome | None:
    """Record what is at work for the stage, or was: by hand, or lost by the log; else None."""
    by_others = by_hand.found(jobs.root, state, [stage] if stage.open_attempt is None else [])
    if by_others:
        return by_hand.take_over(jobs, state, stage, by_others[0], options)
    found = _lost(jobs, state, stage)
    if found is None:
        return None
    outcome = jobs.record_each((found.started, found.since), options=options)
    beside = "is at work, and the log had lost it; it is taken up again, and nothing is computed "
    over = "has ended, and the log had lost it; its result is taken, and nothing is computed "
    jobs.say(
        f"{stage.id}: {found.started.work_dir.rpartition('/')[0]} was begun here, "
        f"{f'{over}again' if found.is_over else f'{beside}beside it'}",
        level="warning",
        stage=stage.id,
    )
    return outcome


def take_up_all(jobs: Jobs, state: Workflow) -> Workflow:
    """Take up whatever is at work for a stage and is not in the log; return the state then.

    What the rules refuse is told.
    """
    free = [stage for stage in state.stages.values() if by_hand.is_free(stage)]
    ids = {job.stage for job in by_hand.found(jobs.root, state, free)}
    ids |= {stage.id for stage in free if any(_of(jobs, state, stage))}
    for id_ in [id_ for id_ in state.stages if id_ in ids]:
        try:
            with jobs.sole(id_):
                state = jobs.service.state()
                take_up(jobs, state, state.stage(id_))
        except LifecycleError as error:
            text = f"{id_}: what is at work for it is not taken up: {error.message}"
            jobs.say(text, level="warning", stage=id_)
    return jobs.service.state() if ids else state
