"""From what is so to what is recorded: evidence → verdict → plan → carried out.

Each step of a plan is a command that goes through the service like anybody else's.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lifecycle.errors import LifecycleError, NeedsConsent, Refused
from lifecycle.payload import models as p
from lifecycle.rules.stages import can_recover
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import is_sweep
from reconciler.attempt.markers import SeenMarker
from reconciler.attempt.paths import AttemptPaths
from reconciler.context import Jobs, Mode
from reconciler.control.dispatch import (
    attach,
    check_start,
    dispatch,
    launch,
    launched,
    next_attempt,
    prepare,
)
from reconciler.control.stopping import diagnosis, stop, stop_all
from reconciler.control.strangers import (
    AttemptFinding,
    in_flight,
    is_in_flight,
    lacks_launch,
    look,
    look_at_all,
    newest_attempt,
    take_up_all,
)
from reconciler.errors import MachineUnreachable, ReconcilerError, words_of
from reconciler.evidence.collect import note_alone, with_digests
from reconciler.evidence.evidence import Evidence
from reconciler.evidence.foreign import marker_paths
from reconciler.files import by_hand
from reconciler.files.leftovers import bring_back, left_by
from reconciler.records.used import together
from reconciler.submission.fields import versions
from reconciler.verdict.diagnosis import Diagnosis, full_disk_of
from reconciler.verdict.table import Action, hindered_verdict, is_hindered, lacked_room
from reconciler.verdict.waiting import why_waiting
from service.writing.stream_writer import WriteOptions
from service.writing.workflow_service import Outcome

if TYPE_CHECKING:
    from pydantic import JsonValue

    from lifecycle.payload.models import Payload
    from lifecycle.state.workflow import Attempt
    from reconciler.context import SubmissionFacts


#: Stages that are recorded in one append at most.
_TOGETHER = 2_000


def reconcile(
    jobs: Jobs, *, dry_run: bool = False, only: str | None = None
) -> list[AttemptFinding]:
    """Bring the log in line with what is so; return what was found.

    ``only`` names one stage. With ``dry_run`` nothing is written or launched. What another
    process has settled meanwhile is left out.
    """
    jobs = jobs.acting_as("reconciler")
    state = jobs.service.state()
    if not dry_run and only is None:
        stop_all(jobs, tells=True)
        state = take_up_all(jobs, state)
    stages = [stage for stage in in_flight(state) if only in (None, stage.id)]
    if dry_run:
        return look_at_all(jobs, state, stages)
    found = _settle_together(jobs, [stage.id for stage in stages])
    return [found[stage.id] for stage in stages if stage.id in found]


def _settle_together(jobs: Jobs, ids: Sequence[str]) -> dict[str, AttemptFinding]:
    """Settle stages, in few appends where no process has to be started for them."""
    with jobs.sole_of(ids) as mine:
        state = jobs.service.state()
        stages = [state.stage(id_) for id_ in ids if is_in_flight(state.stage(id_))]
        found = {finding.stage: finding for finding in look_at_all(jobs, state, stages)}
        news = [stage for stage in stages if _is_news(stage, found[stage.id])]
        plain = [s.id for s in news if s.id in mine and not _starts(s, found[s.id])]
        settled = _recorded(jobs, state, [found[id_] for id_ in plain])
    for id_ in [stage.id for stage in news if stage.id not in settled]:
        now = _settle(jobs, found.pop(id_))
        found |= {} if now is None else {id_: now}
    return found


def _recorded(jobs: Jobs, state: Workflow, findings: Sequence[AttemptFinding]) -> set[str]:
    """Record what was found of stages; return those of which it was."""
    if len(findings) <= _TOGETHER:
        # Another process may have moved one stage, or the files of one attempt are in the way:
        # settled alone, each stage shows its current status.
        with suppress(LifecycleError, ReconcilerError, OSError):
            asked = [asked for found in findings for asked in _asked(jobs, state, found)]
            if asked:
                jobs.record_each(*asked, known=state)
            return {finding.stage for finding in findings}
    half = len(findings) // 2
    if half == 0:
        return set()
    return _recorded(jobs, state, findings[:half]) | _recorded(jobs, state, findings[half:])


def _is_news(stage: Stage, finding: AttemptFinding) -> bool:
    """Whether a finding leads to anything but asking again; of tasks it may at every look."""
    if is_sweep(stage.parameters) and finding.verdict.action is Action.WAIT:
        return True
    found, newest = finding.verdict, stage.attempts[-1]
    waits = newest.waiting["reason"] if newest.waiting else None
    told = (newest.verdict, newest.row, newest.reason, waits)
    known = (found.name, found.row, found.reason, why_waiting(finding.evidence)) == told
    idle = found.action in (Action.WAIT, Action.UNKNOWN)
    return not (known and idle) or lacks_launch(stage, finding.evidence, found)


def _starts(stage: Stage, finding: AttemptFinding) -> bool:
    """Whether a process is started for what was found."""
    action = finding.verdict.action
    return (
        action in (Action.ATTACH, Action.LAUNCH)
        or (action is Action.LOST and can_recover(stage))
        or (is_sweep(stage.parameters) and finding.verdict.is_of_tasks)
    )


def _settle(jobs: Jobs, finding: AttemptFinding) -> AttemptFinding | None:
    """Carry out what is found of an attempt now that nobody else can; None if it is over."""
    with jobs.sole(finding.stage):
        state = jobs.service.state()
        stage = state.stage(finding.stage)
        if not is_in_flight(stage) or stage.attempts[-1].id != finding.attempt:
            return None
        now = look(jobs, state, stage, again=finding.evidence.looked_twice)
        attempt = newest_attempt(jobs, state, stage)
        try:
            # Results wait, and no monitor would bring them back.
            in_vain = now.evidence.in_vain and now.verdict.is_uncollected
            if now.verdict.action is Action.ATTACH and (now.evidence.moved or in_vain):
                note_alone(attempt, now.evidence)
                bring_back(attempt)
                now = look(jobs, state, stage)
            if is_sweep(stage.parameters) and now.verdict.is_of_tasks:
                from reconciler.sweep.judging import close  # only if a stage has tasks

                state = jobs.record(close(state, stage, attempt)).state
                stage = state.stage(stage.id)
                now = look(jobs, state, stage, again=now.evidence.looked_twice)
            now = _held_back(jobs, state, stage, now)
            _carry_out(jobs, state, stage, now)
        except (ReconcilerError, OSError) as error:
            now = _hindered(jobs, now, words_of(error, jobs.root))
            # The step may have ended the attempt, or begun the next one, before it failed.
            with suppress(LifecycleError):
                jobs.record(_observed(now))
        return now


def _held_back(jobs: Jobs, state: Workflow, stage: Stage, now: AttemptFinding) -> AttemptFinding:
    """Return the finding; if it starts a job that may not start, one that waits with the reason."""
    action = now.verdict.action
    if action is not Action.LAUNCH and not (action is Action.LOST and can_recover(stage)):
        return now
    try:
        check_start(jobs, state, stage, again=True)
    except (Refused, NeedsConsent) as error:
        return _hindered(jobs, now, error.message)
    if lacked_room(now.evidence) and not _is_known_hindrance(stage, now):
        return _hindered(jobs, now, full_disk_of(newest_attempt(jobs, state, stage)))
    return now


def _is_known_hindrance(stage: Stage, now: AttemptFinding) -> bool:
    """Return whether a hindrance was already recorded for this end of the monitor."""
    recorded = stage.attempts[-1]
    known = recorded.evidence if is_hindered(recorded.verdict) else None
    return known is not None and Evidence.from_dict(known).exit_marker == now.evidence.exit_marker


def _hindered(jobs: Jobs, now: AttemptFinding, said: str) -> AttemptFinding:
    """Tell of a stage for which nothing could be done; every other stage goes on."""
    said = said.removeprefix(f"{now.stage}: ")
    text = f"{now.stage}: {now.attempt} ({now.verdict.name}): nothing could be done: {said}"
    jobs.say(text, level="warning", stage=now.stage, attempt=now.attempt)
    return replace(now, verdict=hindered_verdict(said), steps=("change nothing, ask again later",))


def _carry_out(jobs: Jobs, state: Workflow, stage: Stage, finding: AttemptFinding) -> None:
    attempt, recorded = newest_attempt(jobs, state, stage), stage.attempts[-1]
    found = finding.verdict
    if found.action is Action.ATTACH:
        note_alone(attempt, finding.evidence)
    jobs.record_each(*_asked(jobs, state, finding))
    if found.action is Action.LOST and can_recover(stage):
        _recover(jobs, state, stage)
    if found.action not in (Action.ATTACH, Action.LAUNCH):
        return
    if recorded.taken_over:
        session = by_hand.session_name(recorded.session or f"dpdisp_{stage.id}")
        jobs.record(
            p.AttemptRelaunched(
                stage=stage.id,
                attempt=recorded.id,
                mode=Mode.TMUX.value,
                session=session,
                reason=found.reason,
            )
        )
        old_markers = [jobs.root / name for name in marker_paths(stage)]
        by_hand.relaunch(jobs.root, stage.id, session, recorded.wrapper, old_markers)
        return
    mode = Mode(recorded.mode)
    jobs.record(
        p.AttemptRelaunched(
            stage=stage.id,
            attempt=recorded.id,
            mode=mode.value,
            session=attempt.session if mode is Mode.TMUX else None,
            reason=found.reason,
        )
    )
    if found.action is Action.LAUNCH:
        # A crash may have come between the record and the clearing of its way.
        launch(jobs, stage, attempt, mode, known=recorded.launched_at is not None)
    else:
        attach(jobs, attempt, mode)


def _launch_found(
    attempt: AttemptPaths, recorded: Attempt, evidence: Evidence, facts: SubmissionFacts
) -> Payload:
    """Return the command that records a launch that the reconciler found.

    If the monitor died before it wrote the ids of the jobs, the evidence has them.
    """
    if recorded.taken_over:
        found = launched(attempt, Mode(recorded.mode), facts)
        return found.model_copy(update={"session": recorded.session})
    ids = facts.job_ids or tuple(job.id for job in evidence.jobs if job.id is not None)
    return launched(attempt, Mode(recorded.mode), replace(facts, job_ids=ids))


def _asked(
    jobs: Jobs, state: Workflow, finding: AttemptFinding
) -> list[tuple[Payload, str | None]]:
    """Return the commands that a finding leads to, launches aside, each with when it was so.

    The rules drop those that say nothing new.
    """
    stage, found, evidence = state.stage(finding.stage), finding.verdict, finding.evidence
    attempt, recorded, action = newest_attempt(jobs, state, stage), stage.attempts[-1], found.action
    news: list[Payload] = []
    if lacks_launch(stage, evidence, found):
        news.append(_launch_found(attempt, recorded, evidence, jobs.runner.facts(attempt)))
    if action in (Action.SUCCEEDED, Action.FAILED, Action.LOST):
        # In the way of the attempt that takes its place it would be moved aside at once.
        stays = (action is Action.LOST and can_recover(stage)) or recorded.diagnostic
        # What was left comes before the end, which may make it the outputs.
        news += left_by(state, stage, attempt, bring=not stays)
    if is_sweep(stage.parameters) and action in (Action.WAIT, Action.ATTACH):
        from reconciler.sweep.judging import progress

        # How far the tasks have come.
        news += progress(state, stage, attempt)
    if action is Action.SUCCEEDED:
        evidence = with_digests(jobs.root, evidence)
    finding = replace(finding, evidence=evidence)
    seen, ends = _observed(finding), _ends(state, stage, attempt, finding)
    # A computation's end by its own record; one from the future, of a clock that is ahead, is now.
    ended = found.occurred_at and min(found.occurred_at, evidence.observed_at)
    return [*((one, None) for one in (seen, *news)), *((one, ended) for one in ends)]


def _observed(finding: AttemptFinding) -> p.AttemptObserved:
    """Return the command that records a finding."""
    is_open = finding.verdict.action in (Action.WAIT, Action.UNKNOWN)
    return p.AttemptObserved(
        stage=finding.stage,
        attempt=finding.attempt,
        row=finding.verdict.row,
        verdict=finding.verdict.name,
        action=finding.verdict.action.value,
        reason=finding.verdict.reason,
        evidence=finding.evidence.to_dict(),
        waiting=why_waiting(finding.evidence) if is_open else None,
    )


def _ends(
    state: Workflow, stage: Stage, attempt: AttemptPaths, finding: AttemptFinding
) -> Iterator[p.StageComputed | p.StageFailed]:
    """Yield the end of an attempt that is over and that no other follows."""
    recorded, found, evidence = stage.attempts[-1], finding.verdict, finding.evidence
    used = together(job.used for job in evidence.jobs if job.used)

    def failed(*circumstances: str) -> p.StageFailed:
        diagnosed = diagnosis(state, stage, attempt, evidence, found.name)
        return stage_failure(stage.id, recorded.id, diagnosed, *circumstances)

    if found.action is Action.SUCCEEDED and recorded.diagnostic:
        yield failed("a diagnostic run")
    elif found.action is Action.SUCCEEDED:
        ids: list[JsonValue] = [job.id for job in evidence.jobs if job.id]
        known: dict[str, JsonValue] = {"job_ids": ids, "environment": {**versions(attempt)}}
        detail = f": {found.reason}" if found.is_of_tasks else ", exit 0"
        yield p.StageComputed(
            stage=stage.id,
            attempt=recorded.id,
            exit_code=0,
            detail=f"{recorded.id}{detail}",
            facts={name: value for name, value in known.items() if value},
            resources=used,
        )
    elif found.action is Action.FAILED:
        # Of a command that failed its own exit code and words say more than that it did.
        is_told = found.is_failed_command and not recorded.taken_over
        more = [] if is_told else [found.reason]
        code = next((job.told_code for job in evidence.jobs if job.told_code), None)
        if recorded.taken_over and evidence.exit_marker.seen is SeenMarker.OWN:
            code = code or evidence.exit_marker.code
        yield failed(*more).model_copy(update={"exit_code": code, "resources": used})
    elif found.action is Action.LOST and not can_recover(stage):
        yield failed(f"lost twice; the last time: {found.reason}")


def stage_failure(stage: str, attempt: str, found: Diagnosis, *circumstances: str) -> p.StageFailed:
    """Return the failure by its diagnosis: its cause, how the jobs ended, and what else is known.

    ``circumstances`` are such as the verdict's own words; they stand alone if they hold all.
    """
    cause = [found.cause] if found.cause else []
    lines = [*cause, *found.jobs, *circumstances]
    return p.StageFailed(
        stage=stage,
        attempt=attempt,
        error="; ".join(dict.fromkeys(lines)) or "no trace of a failure was left",
        category=found.category,
        because=found.because,
        output=found.output,
    )


def _recover(jobs: Jobs, state: Workflow, stage: Stage) -> None:
    """Start a new attempt in place of a lost one, once nothing of that one is left."""
    lost = stage.attempts[-1]
    try:
        does_not_end = stop(newest_attempt(jobs, state, stage)).left
        left = f"{', '.join(does_not_end)} does not end" if does_not_end else ""
    except MachineUnreachable as error:
        left = error.message
    if left:
        text = f"{stage.id}: {lost.id}: {left}; nothing new is started"
        jobs.say(text, level="warning", stage=stage.id, attempt=lost.id)
        return
    attempt = next_attempt(jobs, state, stage, lost.diagnostic)
    mode = Mode(lost.mode)
    command = prepare(jobs, state, stage, attempt, mode, lost.id, lost.diagnostic)
    jobs.record(command)
    launch(jobs, stage, replace(attempt, sha256=command.submission_sha256), mode)


#: Seconds until it is checked why an attempt with a monitor does not continue, and between two such
#: checks. A silent machine takes long to ask, so it is asked less often.
_REASON_FIRST, _REASON_AGAIN, _REASON_OF_SILENT = 10.0, 60.0, 600.0
#: Seconds between two monitors of an attempt whose monitors keep dying.
_LONGEST_PAUSE = 60.0
#: Seconds between two looks at the locks of the monitors.
GLANCE = 0.1


@dataclass(slots=True)
class Turn:
    """When a stage is settled next; monitors that keep dying are replaced more and more slowly."""

    due: float = 0.0
    pause: float = 0.0
    #: When it is checked next why an attempt with a monitor does not continue.
    reason_due: float = field(default_factory=lambda: time.monotonic() + _REASON_FIRST)


def wait_all(jobs: Jobs, ids: Sequence[str], timeout: float | None = None) -> None:
    """Wait until the attempts of the stages have ended, and record each end as it comes.

    Returns early after ``timeout`` seconds; a stage of which nothing can be said is not waited
    for any longer, but anyone who gives no answer is asked again. Raises `UnknownStage` before
    anything is waited for.
    """
    end = None if timeout is None else time.monotonic() + timeout
    state = jobs.service.state()
    turns = {id_: Turn() for id_ in ids if is_in_flight(state.stage(id_))}
    while turns:
        for id_ in [id_ for id_, turn in turns.items() if is_due(jobs, state, id_, turn)]:
            beyond_help = is_beyond_help(jobs, id_)
            state = jobs.service.state()
            if beyond_help or not is_in_flight(state.stage(id_)):
                del turns[id_]
        if end is not None and time.monotonic() >= end:
            return
        jobs.waits(state, turns)
        time.sleep(GLANCE if turns else 0)


def is_due(jobs: Jobs, state: Workflow, id_: str, turn: Turn) -> bool:
    """Return whether to settle a stage now: it has no monitor, or waits for another reason."""
    stage = state.stage(id_)
    if stage.attempt is not None:
        attempt = jobs.attempt(state, stage, stage.attempt.id)
        if time.monotonic() < turn.due:
            return False
        if not jobs.runner.wait(attempt, timeout=0):
            return _has_other_reason(jobs, state, stage, turn)
    turn.due = time.monotonic() + turn.pause
    turn.pause = min(2 * turn.pause or 0.1, _LONGEST_PAUSE)
    return True


def _has_other_reason(jobs: Jobs, state: Workflow, stage: Stage, turn: Turn) -> bool:
    """Return whether the reason of a monitored attempt's wait differs from the recorded one."""
    if time.monotonic() < turn.reason_due or not is_in_flight(stage):
        return False
    recorded, seen = stage.attempts[-1].waiting, None
    with suppress(ReconcilerError, OSError):
        seen = look(jobs, state, stage).evidence
    is_silent = seen is None or seen.silence is not None
    turn.reason_due = time.monotonic() + (_REASON_OF_SILENT if is_silent else _REASON_AGAIN)
    return seen is not None and why_waiting(seen) != (recorded["reason"] if recorded else None)


def is_beyond_help(jobs: Jobs, id_: str) -> bool:
    """Record how the stage stands; whether nothing can be said of it, and never will be."""
    finding = next(iter(reconcile(jobs, only=id_)), None)
    if finding is None or finding.verdict.action is not Action.UNKNOWN:
        return False
    why_not = finding.evidence.silence
    if why_not is not None:
        text = f"{id_}: no answer about {finding.attempt} ({why_not}); asking again"
        jobs.say(text, level="warning", stage=id_, attempt=finding.attempt)
    return why_not is None


def dispatch_sync(
    jobs: Jobs, id_: str, options: WriteOptions, *, diagnostic: bool = False
) -> Outcome:
    """Launch an attempt of the stage, wait for its end and record it."""
    outcome = dispatch(jobs, id_, sync=True, options=options, diagnostic=diagnostic)
    if options.dry_run or outcome.repeated:
        return outcome
    wait_all(jobs, [id_])
    return replace(outcome, stands=jobs.service.state())
