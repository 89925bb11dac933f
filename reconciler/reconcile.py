"""From what is so to what is recorded: evidence → verdict → plan → carried out.

The plan is a pure function of the state, the evidence and the verdict; each step of it is a
command that goes through the service like anybody else's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from typing import Any

from lifecycle import payload as p
from lifecycle.decide_stages import can_recover
from lifecycle.errors import LifecycleError
from lifecycle.payload import Payload
from lifecycle.status import Status
from lifecycle.workflow import Attempt as Recorded
from lifecycle.workflow import Stage, Workflow
from reconciler import moved, processes, taken_over
from reconciler.attempt import Attempt
from reconciler.dispatch import attach, dispatch, launch, launched, prepare
from reconciler.evidence import Evidence, collect
from reconciler.jobs import Jobs
from reconciler.markers import clear_stale
from reconciler.runner import Facts, Mode
from reconciler.stop import stop_below
from reconciler.traces import scratch_root
from reconciler.verdict import Action, Verdict, verdict
from service.errors import RootBusy
from service.place import was_here
from service.service import Outcome, WriteOptions

#: Seconds between two monitors of an attempt whose monitors keep dying.
_LONGEST_PAUSE = 60.0
#: Stages that are held, and recorded, at a time; each takes an open file.
_TOGETHER = 500


@dataclass(frozen=True, slots=True)
class Finding:
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
    return [stage for stage in state.stages.values() if _is_in_flight(stage)]


def _is_in_flight(stage: Stage) -> bool:
    under_way = stage.status in (Status.PREPARING, Status.RUNNING)
    return under_way and stage.open_attempt is not None


def reconcile(jobs: Jobs, *, dry_run: bool = False, only: str | None = None) -> list[Finding]:
    """Bring the log in line with what is so; return what was found.

    ``only`` names one stage. With ``dry_run`` nothing is written or launched. What another
    process has settled meanwhile is left out.
    """
    jobs = jobs.acting_as("reconciler")
    state = jobs.service.state()
    stages = [stage for stage in in_flight(state) if only in (None, stage.id)]
    if dry_run:
        return _look_at_all(jobs, state, stages)
    found: dict[str, Finding] = {}
    for start in range(0, len(stages), _TOGETHER):
        found |= _settle_together(jobs, [stage.id for stage in stages[start : start + _TOGETHER]])
    return [found[stage.id] for stage in stages if stage.id in found]


def _look_at_all(jobs: Jobs, state: Workflow, stages: Sequence[Stage]) -> list[Finding]:
    census = processes.census() if stages else ()
    return [look(jobs, state, stage, census) for stage in stages]


def _settle_together(jobs: Jobs, ids: Sequence[str]) -> dict[str, Finding]:
    """Settle stages, in one append where no process has to be started for them."""
    with ExitStack() as held:
        mine = {id_ for id_ in ids if _is_free(jobs, id_, held)}
        state = jobs.service.state()
        stages = [state.stage(id_) for id_ in ids if _is_in_flight(state.stage(id_))]
        found = {finding.stage: finding for finding in _look_at_all(jobs, state, stages)}
        news = [stage for stage in stages if _is_news(stage, found[stage.id])]
        plain = {s.id for s in news if s.id in mine and not _starts(s, found[s.id])}
        if not _recorded_together(jobs, state, [found[id_] for id_ in found if id_ in plain]):
            plain = set()
    for id_ in [stage.id for stage in news if stage.id not in plain]:
        settled = _settle(jobs, found.pop(id_))
        found |= {} if settled is None else {id_: settled}
    return found


def _is_news(stage: Stage, finding: Finding) -> bool:
    """Whether a finding leads to anything but asking again."""
    found, newest = finding.verdict, stage.attempts[-1]
    known = (found.name, found.row, found.reason) == (newest.verdict, newest.row, newest.reason)
    idle = found.action in (Action.WAIT, Action.UNKNOWN)
    return not (known and idle) or _lacks_launch(stage, found)


def _is_free(jobs: Jobs, id_: str, held: ExitStack) -> bool:
    """Hold the stage unless another process does: that one is waited for by itself, later."""
    try:
        held.enter_context(jobs.sole(id_, timeout=0))
    except RootBusy:
        return False
    return True


def _starts(stage: Stage, finding: Finding) -> bool:
    """Whether a process is started for what was found."""
    action = finding.verdict.action
    return action in (Action.ATTACH, Action.LAUNCH) or (
        action is Action.LOST and can_recover(stage)
    )


def _recorded_together(jobs: Jobs, state: Workflow, findings: Sequence[Finding]) -> bool:
    """Record what was found of several stages at once; False where the rules refuse one."""
    asked = [asked for found in findings for asked in _asked(jobs, state, found)]
    try:
        if asked:
            jobs.record_each(*asked)
    except LifecycleError:
        # Somebody else moved one of them meanwhile; by itself each shows what is so now.
        return False
    return True


def _settle(jobs: Jobs, finding: Finding) -> Finding | None:
    """Carry out what is found of an attempt now that nobody else can; None where it is over."""
    with jobs.sole(finding.stage):
        state = jobs.service.state()
        stage = state.stage(finding.stage)
        if not _is_in_flight(stage) or stage.attempts[-1].id != finding.attempt:
            return None
        now = look(jobs, state, stage)
        _carry_out(jobs, state, stage, now)
        return now


def dispatch_sync(jobs: Jobs, id_: str, options: WriteOptions) -> Outcome:
    """Launch an attempt of the stage, wait for its end and record it."""
    outcome = dispatch(jobs, id_, sync=True, options=options)
    if not options.dry_run and not outcome.repeated:
        wait(jobs, id_)
    return outcome


def wait(jobs: Jobs, id_: str, timeout: float | None = None) -> Finding | None:
    """Wait until the attempt of the stage has ended, and record how; None where none is open.

    Monitors that die meanwhile are replaced. The finding's action is ``wait`` where ``timeout``
    (seconds) passed first, ``unknown`` where nothing can be said of the attempt.
    """
    end = None if timeout is None else time.monotonic() + timeout
    finding = None
    for pause in pauses():
        state = jobs.service.state()
        stage = state.stage(id_)
        if not _is_in_flight(stage):
            break
        attempt = jobs.attempt(state, stage, stage.attempts[-1].id)
        if not jobs.runner.wait(attempt, _left(end)):
            return look(jobs, state, stage)
        finding = next(iter(reconcile(jobs, only=id_)), None)
        if finding is not None and (finding.verdict.action is Action.UNKNOWN or _left(end) == 0):
            break
        time.sleep(min(pause, _left(end) or pause))
    return finding


def _left(end: float | None) -> float | None:
    return None if end is None else max(0.0, end - time.monotonic())


def pauses() -> Iterator[float]:
    """Yield seconds to wait before a monitor is attached once more: nothing at first."""
    yield 0.0
    yield from (min(0.1 * 2**n, _LONGEST_PAUSE) for n in count())


def look(jobs: Jobs, state: Workflow, stage: Stage, census: Any = None) -> Finding:
    """Collect the evidence on the stage's attempt and judge it."""
    recorded = stage.attempts[-1]
    attempt = jobs.attempt(state, stage, recorded.id)
    evidence = collect(
        attempt,
        jobs.now(),
        recorded_root=recorded.root,
        recorded_host=recorded.host,
        census=census,
    )
    if recorded.taken_over:
        evidence = taken_over.evidence_of(evidence, stage, jobs.root)
        found = taken_over.verdict_of(evidence, state, stage)
    else:
        found = verdict(evidence)
    if found.name == "ELSEWHERE" and was_here(jobs.service.root, recorded.root, recorded.host):
        evidence, found = moved.judged(evidence)
    steps = tuple(_spelled(stage, recorded, found))
    return Finding(stage.id, recorded.id, evidence, found, steps)


def _spelled(stage: Stage, recorded: Recorded, found: Verdict) -> list[str]:
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
    if _lacks_launch(stage, found):
        steps.insert(0, "record that it was launched")
    return steps


def _was_launched(found: Verdict) -> bool:
    return found.action in (Action.WAIT, Action.ATTACH, Action.SUCCEEDED)


def _carry_out(jobs: Jobs, state: Workflow, stage: Stage, finding: Finding) -> None:
    jobs.record_each(*_asked(jobs, state, finding))
    attempt = jobs.attempt(state, stage, finding.attempt)
    match finding.verdict.action:
        case Action.ATTACH | Action.LAUNCH:
            _relaunch(jobs, stage, attempt, finding.verdict)
        case Action.LOST if can_recover(stage):
            _recover(jobs, state, stage)


def _asked(jobs: Jobs, state: Workflow, finding: Finding) -> list[tuple[Payload, str | None]]:
    """Return the commands that a finding leads to, launches aside, each with when it was so."""
    stage = state.stage(finding.stage)
    attempt = jobs.attempt(state, stage, finding.attempt)
    facts = jobs.runner.facts(attempt) if _lacks_launch(stage, finding.verdict) else Facts()
    planned = plan(stage, finding.verdict, facts, attempt, jobs.runner.failure_reason)
    commands = [*observed(stage, finding), *planned]
    return [(command, _when(command, finding)) for command in commands]


def observed(stage: Stage, finding: Finding) -> list[Payload]:
    """Return the command that records a finding; the rules drop it where it says nothing new."""
    found = finding.verdict
    return [
        p.AttemptObserved(
            stage=stage.id,
            attempt=finding.attempt,
            row=found.row,
            verdict=found.name,
            action=found.action.value,
            reason=found.reason,
            evidence=finding.evidence.to_dict(),
        )
    ]


def plan(
    stage: Stage,
    found: Verdict,
    facts: Facts,
    attempt: Attempt,
    reason_of: Callable[[Attempt], str],
) -> list[Payload]:
    """Return the commands that a verdict leads to, launches aside.

    ``reason_of`` says of a failed attempt why.
    """
    recorded = stage.attempts[-1]
    commands: list[Payload] = []
    if _lacks_launch(stage, found):
        launch_ = launched(attempt, Mode(recorded.mode), facts)
        foreign = {"session": recorded.session} if recorded.taken_over else {}
        commands.append(launch_.model_copy(update=foreign))
    if found.action is Action.SUCCEEDED:
        commands.append(_computed(stage, recorded, found))
    elif found.action is Action.FAILED:
        commands.append(_failed(stage, recorded, f"{found.reason}: {reason_of(attempt)}"))
    elif found.action is Action.LOST and not can_recover(stage):
        commands.append(_failed(stage, recorded, f"lost twice; the last time: {found.reason}"))
    return commands


def _lacks_launch(stage: Stage, found: Verdict) -> bool:
    """Whether an attempt that was launched is not recorded as such."""
    recorded = stage.attempts[-1]
    return recorded.launched_at is None and _was_launched(found) and recorded.mode != "sync"


def _computed(stage: Stage, recorded: Recorded, found: Verdict) -> Payload:
    detail = f"{recorded.id}, exit 0"
    return p.StageComputed(stage=stage.id, attempt=recorded.id, exit_code=0, detail=detail)


def _failed(stage: Stage, recorded: Recorded, error: str) -> Payload:
    return p.StageFailed(stage=stage.id, attempt=recorded.id, error=error)


def _when(command: Payload, finding: Finding) -> str | None:
    """Return when it was so: a computation's end by its own record, anything else now.

    A record from the future, of a clock that is ahead, counts as now.
    """
    ended = finding.verdict.occurred_at
    if ended is None or not isinstance(command, p.StageComputed | p.StageFailed):
        return None
    return min(ended, finding.evidence.observed_at)


def _relaunch(jobs: Jobs, stage: Stage, attempt: Attempt, found: Verdict) -> None:
    recorded = stage.attempts[-1]
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
        _make_ready(jobs, stage)
    unrecorded = found.action is Action.LAUNCH and recorded.launched_at is None
    start = launch if unrecorded else attach
    start(jobs, attempt, mode)


def _make_ready(jobs: Jobs, stage: Stage) -> None:
    """Do again what a crash may have left out between the record and the launch."""
    earlier = stage.attempts[-2].id if len(stage.attempts) > 1 else None
    clear_stale(jobs.root, stage.id, stage.outputs, earlier)


def _recover(jobs: Jobs, state: Workflow, stage: Stage) -> None:
    """Start a new attempt in place of a lost one, once nothing of that one is left."""
    lost = stage.attempts[-1]
    left = stop_below(scratch_root(jobs.attempt(state, stage, lost.id)))
    if left:
        pids = ", ".join(str(tenant.pid) for tenant in left)
        jobs.say(f"{stage.id}: processes {pids} of {lost.id} do not end; nothing new is started")
        return
    attempt = jobs.attempt(state, stage, f"att-{len(stage.attempts) + 1:04d}")
    mode = Mode(lost.mode)
    jobs.record(prepare(jobs, state, stage, attempt, mode, recovers=lost.id))
    clear_stale(jobs.root, stage.id, stage.outputs, lost.id)
    launch(jobs, attempt, mode)
