"""A finding: what was seen of the attempt of a stage, and the verdict on it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from lifecycle.rules.stages import can_recover
from lifecycle.state.status import Status
from lifecycle.state.workflow import Attempt as Recorded
from lifecycle.state.workflow import Stage, Workflow
from lifecycle.sweeps.definition import is_sweep
from reconciler.attempt import execution_host as machine
from reconciler.attempt.paths import AttemptPaths
from reconciler.context import Jobs
from reconciler.dpdispatcher.watch import AGAIN
from reconciler.errors import DamagedAttempt, ReconcilerError
from reconciler.evidence.collect import Evidence, collect
from reconciler.evidence.survey import Survey, surveyed
from reconciler.host import processes
from reconciler.verdict import moved, taken_over
from reconciler.verdict.names import Name
from reconciler.verdict.table import Action, Verdict, verdict
from service.writing.place import original_of, was_here

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
    missing = [stage for stage in stages if found[stage.id].verdict.name == Name.VANISHED]
    if missing:
        time.sleep(AGAIN)
        found |= _look_once(jobs, state, missing, again=True)
    return [found[stage.id] for stage in stages]


def _look_once(
    jobs: Jobs, state: Workflow, stages: Sequence[Stage], *, again: bool
) -> dict[str, AttemptFinding]:
    attempts = {stage.id: newest_attempt(jobs, state, stage) for stage in stages}
    hidden = {stage.id: _hidden(attempts[stage.id]) for stage in stages}
    survey = surveyed([attempts[id_] for id_, why in hidden.items() if why is None])
    found = {}
    for stage in stages:
        attempt, why = attempts[stage.id], hidden[stage.id]
        try:
            if why is not None:
                raise why
            found[stage.id] = _finding(jobs, state, survey, stage, attempt, again=again)
        except DAMAGES as error:
            # One damaged attempt is a finding of its stage, and stops nobody else.
            found[stage.id] = _unreadable(jobs, stage, attempt, error)
    return found


def _hidden(attempt: AttemptPaths) -> Exception | None:
    """Return why nobody knows where the attempt's jobs run; None where it is known."""
    try:
        machine.of(attempt)
    except DAMAGES as error:
        return error
    return None


def _unreadable(
    jobs: Jobs, stage: Stage, attempt: AttemptPaths, error: Exception
) -> AttemptFinding:
    evidence = Evidence.of_nothing(jobs.now(), attempt, processes.host(), processes.boot_id())
    if isinstance(error, ReconcilerError):
        what = error.message
    else:
        what = DamagedAttempt(stage.id, attempt.folder, f"it cannot be read ({error})").message
    found = Verdict(2, Name.UNREADABLE, Action.UNKNOWN, what)
    return AttemptFinding(
        stage.id, attempt.id, evidence, found, tuple(_spelled(stage, evidence, found))
    )


def _finding(
    jobs: Jobs, state: Workflow, survey: Survey, stage: Stage, attempt: AttemptPaths, *, again: bool
) -> AttemptFinding:
    recorded = stage.attempts[-1]
    foreign = _is_foreign(recorded, attempt)
    evidence = collect(
        attempt,
        jobs.now(),
        # Of an attempt whose log was lost the launch record alone knows the place.
        recorded_root=recorded.root if foreign or recorded.submission_sha256 else None,
        recorded_host=recorded.host,
        recorded_boot=recorded.boot_id,
        survey=survey,
    )
    in_vain = recorded.relaunches_alike >= IN_VAIN
    evidence = replace(
        evidence,
        looked_twice=again,
        last_chance=not can_recover(stage),
        in_vain=in_vain,
        verifiable=bool(stage.parameters.get("verify")),
    )
    if foreign:
        evidence = taken_over.evidence_of(evidence, stage, jobs.root)
        found = taken_over.verdict_of(evidence, state, stage)
    else:
        found = verdict(evidence)
    if found.name == Name.ELSEWHERE and was_here(jobs.service.root, recorded.root, recorded.host):
        evidence, found = moved.judged(evidence)
    elif found.name == Name.ELSEWHERE and (original := original_of(jobs.service.root)) is not None:
        found = replace(found, reason=_of_the_original(stage.id, original))
    elif found.name == Name.ELSEWHERE and evidence.root_recorded == evidence.root_now:
        found = replace(found, reason=_of_another_host(evidence))
    if is_sweep(stage.parameters) and not foreign:
        from reconciler.sweep.judging import judged  # only where a stage has tasks

        found = judged(state, stage, attempt, found)
    steps = tuple(_spelled(stage, evidence, found))
    return AttemptFinding(stage.id, recorded.id, evidence, found, steps)


def _is_foreign(recorded: Recorded, attempt: AttemptPaths) -> bool:
    """Whether session and markers alone tell of it: launched by hand, or imported without a folder.

    Of an attempt that was launched for a log that was lost the folder tells as of any other.
    """
    return recorded.taken_over or not (recorded.submission_sha256 or attempt.folder.is_dir())


def _of_another_host(evidence: Evidence) -> str:
    return (
        f"it was launched on {evidence.host_recorded}, and this host is {evidence.host_now}: "
        "go back there. Where it is the same machine, or that one is gone for good: `wfctl "
        "--root-is moved rehydrate`"
    )


def _of_the_original(stage: str, original: str) -> str:
    return (
        f"it belongs to {original}, of which this root is a copy, and is left to it; to compute it "
        f"here as well, `wfctl stage fail {stage} --error copied`, then `wfctl stage retry {stage} "
        "--fix TEXT`"
    )


def newest_attempt(jobs: Jobs, state: Workflow, stage: Stage) -> AttemptPaths:
    """Return where the newest attempt of the stage keeps its files."""
    return jobs.attempt(state, stage, stage.attempts[-1].id)


def _spelled(stage: Stage, evidence: Evidence, found: Verdict) -> list[str]:
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
    steps = [words[found.action]]
    if lacks_launch(stage, evidence, found):
        steps.insert(0, "record that it was launched")
    return steps


def _was_launched(found: Verdict) -> bool:
    return found.action in (Action.WAIT, Action.ATTACH, Action.SUCCEEDED)


def lacks_launch(stage: Stage, evidence: Evidence, found: Verdict) -> bool:
    """Say whether an attempt that was launched is not recorded as such, or without its jobs."""
    recorded = stage.attempts[-1]
    known = recorded.launched_at is not None and (recorded.job_ids or not _has_ids(evidence))
    return not known and _was_launched(found)


def _has_ids(evidence: Evidence) -> bool:
    return any(job.id for job in evidence.jobs)
