"""Who made what from what: the runs, rounds and changes that ``prov`` and ``ro-crate`` tell of.

What the log does not say is None or empty here, and is left out there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from eventstore.event import Actor, RecordedEvent
from lifecycle.state.loops import Round
from lifecycle.state.status import Status
from lifecycle.state.workflow import Amendment, Workflow
from projections.exports.formats import Steps, amended_by
from projections.words.amendments import told


class File(NamedTuple):
    """A file as it was: path in the root, bytes, SHA-256 in hex."""

    path: str
    size: int
    sha256: str


@dataclass(slots=True)
class Run:
    """One attempt of a stage; ``attempt`` is None if an imported state tells of the run alone.

    ``start`` and ``end`` are ISO 8601 with an offset. ``plan`` is the workflow's version then.
    """

    stage: str
    name: str
    attempt: str | None
    plan: int
    start: str | None = None
    end: str | None = None
    actor: Actor | None = None
    host: str | None = None
    inputs: list[File] = field(default_factory=list)
    outputs: list[File] = field(default_factory=list)
    parameters: dict[str, Any] = field(default_factory=dict)
    #: The loop that it is in, and the round of it.
    loop: str | None = None
    round: int | None = None
    #: The commit of what it computed with, as `CodeVersion` has it.
    code: dict[str, Any] | None = None
    #: Numbers that were read from its outputs, as `MeasuredNumber` has them.
    metrics: list[dict[str, Any]] = field(default_factory=list)
    completed: bool | None = None
    error: str | None = None

    @property
    def id(self) -> str:
        """Name of the run in its workflow."""
        return f"{self.stage}.{self.attempt}" if self.attempt is not None else self.stage


@dataclass(slots=True)
class PlanChange:
    """An amendment, as far as it came: proposed, approved or rejected."""

    id: str
    kind: str
    stage: str | None
    description: str
    proposed_at: str | None
    proposer: Actor | None
    status: str = "proposed"
    decided_at: str | None = None
    decider: Actor | None = None
    version: int | None = None


class LoopRound(NamedTuple):
    """A round of a loop: what led to it, and its attempts.

    ``files`` are those that its points came from, as stages of the loop left them; ``asked`` is the
    stage that chose them, ``proposer`` somebody who did.
    """

    loop: str
    told: Round
    runs: list[Run]
    files: list[File]
    asked: str | None
    proposer: Actor | None
    before: LoopRound | None

    @property
    def counting(self) -> list[Run]:
        """The attempts whose numbers are those of the round: of each stage the last completed."""
        return list({run.stage: run for run in self.runs if run.completed}.values())

    @property
    def start(self) -> str | None:
        """When its points were chosen; those of the first round stand in the plan."""
        return self.told.began_at or (self.runs[0].start if self.runs else None)


class Beginning(NamedTuple):
    """The workflow's first event."""

    at: str
    actor: Actor


Told = Beginning | Run | PlanChange | LoopRound


def provenance(steps: Steps) -> Iterator[Told]:
    """Yield the beginning, each run and change once it is over, those that are not, the rounds."""
    runs: dict[str, Run] = {}
    changes: dict[str, PlanChange] = {}
    looped: list[Run] = []
    state: Workflow | None = None
    for event, state in steps:
        if event.version == 1:
            yield Beginning(event.occurred_at, event.actor)
        if amended := amended_by(event, state):
            yield from _changed(changes, event, *amended)
        elif event.data.get("stage") in runs or event.type == "attempt.started":
            for run in _ran(runs, event, state):
                yield run
                looped += [run] if run.loop else []
    yield from runs.values()
    yield from changes.values()
    if state is None:
        return
    yield from _told_by_files(state)
    yield from _rounds(state, [*looped, *(run for run in runs.values() if run.loop)])


def _told_by_files(state: Workflow) -> Iterator[Run]:
    """Yield the runs of which only a file tells: that there was one, and perhaps when."""
    for stage in state.stages.values():
        if stage.status is Status.COMPLETED and not stage.attempts:
            start, end = _instant(stage.started_at), _instant(stage.completed_at)
            yield Run(stage.id, stage.name, None, state.version, start, end, completed=True)


def _rounds(state: Workflow, runs: list[Run]) -> Iterator[LoopRound]:
    """Yield the rounds of each loop that have begun, of all attempts of loops."""
    made = {(one.path, one.sha256): one for run in runs for one in run.outputs}
    of_rounds: dict[tuple[str | None, int | None], list[Run]] = {}
    for run in runs:
        of_rounds.setdefault((run.loop, run.round), []).append(run)
    for name, loop in state.loops.items():
        before = None
        for one in loop.rounds:
            own = of_rounds.get((name, one.number), [])
            if not (own or one.began_at):
                continue
            files = [made[key] for key in one.data.items() if key in made]
            kind, _, who = (one.by or "").partition(":")
            asked = who if kind == "stage" else None
            proposer = Actor(kind, who) if who and not asked else None
            before = LoopRound(name, one, own, files, asked, proposer, before)
            yield before


def _ran(runs: dict[str, Run], event: RecordedEvent, state: Workflow) -> Iterator[Run]:
    """Take in an event of a stage; yield the run that it ends."""
    stage = event.data["stage"]
    run, error = runs.get(stage), None
    if event.type == "attempt.started":
        runs.pop(stage, None)  # what is open is told in the order in which it began
        runs[stage] = _begun(event, state)
        error = "it was lost"
    elif run is not None and event.type == "stage.computed":
        run.end = event.occurred_at
        return
    elif run is not None and event.type == "stage.completed":
        run.outputs = _files(event.data.get("outputs"))
        del runs[stage]
    elif event.type == "stage.failed":
        error = event.data["error"]
        del runs[stage]
    else:
        return
    if run is not None:
        run.metrics = event.data.get("metrics") or []
        run.end = run.end or event.occurred_at
        run.completed, run.error = error is None, error
        yield run


def _changed(
    changes: dict[str, PlanChange], event: RecordedEvent, of: Amendment, is_new: bool
) -> Iterator[PlanChange]:
    at, actor = event.occurred_at, event.actor
    if is_new:
        change = PlanChange(of.id, of.kind, of.stage, told(of), at, actor)
        changes.setdefault(of.id, change)
    elif of.id in changes:
        change = changes.pop(of.id)
        change.status, change.version = of.status, of.version
        change.decided_at, change.decider = at, actor
        if of.mandate is not None:  # who recorded it decided nothing
            change.decider = None
            change.description += f"; approved by {of.approved_by}, which was granted beforehand"
        yield change


def _begun(event: RecordedEvent, state: Workflow) -> Run:
    data, stage = event.data, state.stages[event.data["stage"]]
    loop = state.loop_of(stage.id)
    return Run(
        stage.id,
        stage.name,
        data["attempt"],
        state.version,
        start=event.occurred_at,
        actor=event.actor,
        host=data.get("host"),
        inputs=[*_files(data.get("inputs")), *_points_of_round(state, stage.id)],
        parameters=dict(stage.parameters),
        loop=loop,
        round=state.loops[loop].round.number if loop else None,
        code=data.get("code"),
    )


def _points_of_round(state: Workflow, stage: str) -> list[File]:
    """Return the file with the points of the round that a sweep computes."""
    name = state.loop_of(stage)
    if name is None or state.loop(name).points != stage:
        return []
    source, asked = state.loops[name].round.source, state.stages.get(state.loop(name).asked)
    return [one for one in _files(asked.results if asked else []) if one.path == source]


def _files(digests: list[dict[str, Any]] | None) -> list[File]:
    return [File(d["path"], d["size"], d["sha256"]) for d in digests or []]


def _instant(moment: str | None) -> str | None:
    """Return a time that has an offset, None for one that was typed without."""
    try:
        found = datetime.fromisoformat(moment or "")
    except ValueError:
        return None
    return found.isoformat().replace("+00:00", "Z") if found.tzinfo is not None else None
